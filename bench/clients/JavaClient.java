import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Apache's Java client under load, as `ours.py` is: MODE NAME_SERVER TOPIC AMOUNT GROUP.
 *
 * The first seconds of sending do not count, because the JVM compiles then. Readers have no such
 * time: the more messages wait for them, the less it matters.
 */
public final class JavaClient {
    private static final byte[] BODY = "x".repeat(128).getBytes(StandardCharsets.US_ASCII);
    private static final long WARM_UP_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final int SAMPLES_MAX = 1_000_000;
    private static final long PATIENCE_S = 60;

    private final String nameServer;
    private final String topic;
    private final String group;

    private JavaClient(String nameServer, String topic, String group) {
        this.nameServer = nameServer;
        this.topic = topic;
        this.group = group;
    }

    public static void main(String[] args) throws Exception {
        JavaClient client = new JavaClient(args[1], args[2], args[4]);
        switch (args[0]) {
            case "send-1":
                client.send(Double.parseDouble(args[3]), 1);
                break;
            case "send-64":
                client.send(Double.parseDouble(args[3]), 64);
                break;
            case "push":
                client.push((int) Double.parseDouble(args[3]), 1);
                break;
            case "push-batch":
                client.push((int) Double.parseDouble(args[3]), 32);
                break;
            case "poll":
                client.poll((int) Double.parseDouble(args[3]));
                break;
            default:
                throw new IllegalArgumentException(args[0]);
        }
        Runtime.getRuntime().halt(0);
    }

    private void send(double seconds, int threadCount) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(nameServer);
        producer.start();
        sendUntil(producer, System.nanoTime() + WARM_UP_NANOS, threadCount, null);
        long[] latencies = threadCount == 1 ? new long[SAMPLES_MAX] : null;
        long cpu = cpuNanos();
        long start = System.nanoTime();
        long count = sendUntil(producer, start + (long) (seconds * 1e9), threadCount, latencies);
        report(count, System.nanoTime() - start, cpuNanos() - cpu, latencies);
        producer.shutdown();
    }

    private long sendUntil(DefaultMQProducer producer, long end, int threadCount, long[] latencies)
        throws InterruptedException {
        AtomicLong total = new AtomicLong();
        Thread[] threads = new Thread[threadCount];
        for (int i = 0; i < threadCount; i++) {
            threads[i] = new Thread(() -> total.addAndGet(keepSending(producer, end, latencies)));
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return total.get();
    }

    private long keepSending(DefaultMQProducer producer, long end, long[] latencies) {
        int count = 0;
        long before = System.nanoTime();
        try {
            while (before < end) {
                producer.send(new Message(topic, BODY));
                long after = System.nanoTime();
                if (latencies != null && count < SAMPLES_MAX) {
                    latencies[count] = after - before;
                }
                before = after;
                count++;
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
        return count;
    }

    /** All messages of a topic; the time runs from the first that came. */
    private void push(int count, int batch) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeMessageBatchMaxSize(batch);
        consumer.subscribe(topic, "*");
        AtomicLong seen = new AtomicLong();
        CountDownLatch all = new CountDownLatch(1);
        long[] first = new long[2];
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = seen.addAndGet(messages.size());
            if (now == messages.size()) {
                first[0] = System.nanoTime();
                first[1] = cpuNanos();
            }
            if (now >= count) {
                all.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        all.await(PATIENCE_S, TimeUnit.SECONDS);
        report(seen.get(), System.nanoTime() - first[0], cpuNanos() - first[1], null);
        consumer.shutdown();
    }

    /** Until all messages of a topic have come. */
    private void poll(int count) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setPullBatchSize(32);
        consumer.subscribe(topic, "*");
        consumer.start();
        long giveUp = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        long start = 0;
        long cpu = 0;
        long seen = 0;
        while (seen < count && System.nanoTime() < giveUp) {
            int found = consumer.poll(1000).size();
            if (seen == 0 && found > 0) {
                start = System.nanoTime();
                cpu = cpuNanos();
            }
            seen += found;
        }
        report(seen, System.nanoTime() - start, cpuNanos() - cpu, null);
        consumer.shutdown();
    }

    private static void report(long count, long nanos, long cpuNanos, long[] latencies) {
        String median = "";
        if (latencies != null) {
            long[] seen = Arrays.copyOf(latencies, (int) Math.min(count, SAMPLES_MAX));
            Arrays.sort(seen);
            median = ", \"p50_us\": " + seen[seen.length / 2] / 1e3;
        }
        System.out.println("{\"messages\": " + count + ", \"seconds\": " + nanos / 1e9
            + ", \"cpu_s\": " + cpuNanos / 1e9 + median + "}");
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory
            .getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
