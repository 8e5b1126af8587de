import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.PushConsumerBuilder;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * Tells stories with the official Java SDK of 5.x: "STORY TOPIC GROUP" per line on stdin, a JSON
 * text per line on stdout. Ends with stdin.
 *
 * <pre>
 * java Sdk ENDPOINT [tls] [ACCESS_KEY SECRET_KEY]
 * </pre>
 */
public final class Sdk {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration INVISIBLE = Duration.ofSeconds(10);
    private static final Duration POLL = Duration.ofSeconds(2);

    /** What is told with a topic and a group; the result is written as JSON. */
    interface Story {
        Object tell(String topic, String group) throws Exception;
    }

    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final ClientConfiguration configuration;
    private final Map<String, Story> stories = new TreeMap<>();
    // Of what goes on from `start` to `finish`.
    private final List<String> sent = Collections.synchronizedList(new ArrayList<>());
    private volatile Seen looping;
    private volatile boolean isFinished;

    private Sdk(List<String> words) {
        boolean isTls = words.contains("tls");
        List<String> account = words.subList(isTls ? 2 : 1, words.size());
        ClientConfigurationBuilder builder =
                ClientConfiguration.newBuilder().setEndpoints(words.get(0)).enableSsl(isTls);
        if (account.size() == 2) {
            builder.setCredentialProvider(
                    new StaticSessionCredentialsProvider(account.get(0), account.get(1)));
        }
        configuration = builder.build();
        stories.put("simple", this::simple);
        stories.put("sql", this::sql);
        stories.put("again", this::again);
        stories.put("push", this::push);
        stories.put("fifo", this::fifo);
        stories.put("delay", this::delay);
        stories.put("recall", this::recall);
        stories.put("transactions", this::transactions);
        stories.put("dead", this::dead);
        stories.put("share", this::share);
        stories.put("hold", this::hold);
        stories.put("send", this::send);
        stories.put("read", this::read);
        stories.put("order", this::sendInOrder);
        stories.put("refused", this::refused);
        stories.put("start", this::start);
        stories.put("finish", this::finish);
    }

    public static void main(String[] words) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Libraries print what they like; stdout is for answers alone.
        System.setOut(System.err);
        Sdk sdk = new Sdk(Arrays.asList(words));
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = lines.readLine()) != null) {
            String[] given = line.split(" ");
            Object result;
            try {
                result = sdk.stories.get(given[0]).tell(given[1], given[2]);
            } catch (Throwable failure) {
                failure.printStackTrace();
                result = Map.of("error", failure.getClass().getSimpleName() + ": " + failure.getMessage());
            }
            answers.println(json(result));
        }
        Runtime.getRuntime().halt(0);
    }

    /** Messages with all that they have, and only those of a tag. */
    private Object simple(String topic, String group) throws Exception {
        try (Producer producer = producer(topic)) {
            for (int index = 0; index < 10; index++) {
                String tag = index % 2 == 0 ? "even" : "odd";
                producer.send(message(topic, "body " + index).setTag(tag).setKeys("key-" + index)
                        .addProperty("city", "Rome").build());
            }
        }
        try (SimpleConsumer consumer = consumer(topic, group, new FilterExpression("odd"))) {
            return sorted(received(consumer, 5), each -> List.of(
                    body(each), each.getTag().get(), String.join(",", each.getKeys()),
                    each.getProperties().get("city")));
        }
    }

    private Object sql(String topic, String group) throws Exception {
        try (Producer producer = producer(topic)) {
            for (int index = 0; index < 10; index++) {
                producer.send(message(topic, "body " + index)
                        .addProperty("price", String.valueOf(index)).build());
            }
        }
        FilterExpression cheap = new FilterExpression("price < 3", FilterExpressionType.SQL92);
        try (SimpleConsumer consumer = consumer(topic, group, cheap)) {
            return sorted(received(consumer, 3), each -> List.of(body(each)));
        }
    }

    /** What is not acknowledged comes again, and sooner if the consumer wants that. */
    private Object again(String topic, String group) throws Exception {
        try (Producer producer = producer(topic)) {
            producer.send(message(topic, "again").build());
        }
        try (SimpleConsumer consumer = consumer(topic, group, FilterExpression.SUB_ALL)) {
            MessageView first = next(consumer);
            long since = System.nanoTime();
            consumer.changeInvisibleDuration(first, Duration.ofSeconds(1));
            MessageView second = next(consumer);
            boolean isInTime = System.nanoTime() - since < 5_000_000_000L;
            consumer.ack(second);
            return List.of(first.getDeliveryAttempt(), second.getDeliveryAttempt(), isInTime);
        }
    }

    /** A listener that fails once gets the message again. */
    private Object push(String topic, String group) throws Exception {
        Set<String> failed = Collections.synchronizedSet(new HashSet<>());
        Seen seen = new Seen(each ->
                body(each).equals("push 3") && failed.add("push 3")
                        ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS);
        try (Producer producer = producer(topic); Pushing pushing = pushing(topic, group, seen)) {
            for (int index = 0; index < 5; index++) {
                producer.send(message(topic, "push " + index).build());
            }
            return sorted(seen.await(6), each -> List.of(body(each), each.getDeliveryAttempt()));
        }
    }

    /** Each message group comes in order. */
    private Object fifo(String topic, String group) throws Exception {
        sendInOrder(topic, group);
        Seen seen = new Seen(each -> ConsumeResult.SUCCESS);
        try (Pushing pushing = pushing(topic, group, seen)) {
            return inGroups(seen.await(20));
        }
    }

    private Object sendInOrder(String topic, String group) throws Exception {
        try (Producer producer = producer(topic)) {
            for (int index = 0; index < 20; index++) {
                producer.send(message(topic, String.valueOf(index / 2))
                        .setMessageGroup("orders-" + index % 2).build());
            }
        }
        return List.of();
    }

    /** Not before its time. */
    private Object delay(String topic, String group) throws Exception {
        try (Producer producer = producer(topic);
                SimpleConsumer consumer = consumer(topic, group, FilterExpression.SUB_ALL)) {
            long due = System.currentTimeMillis() + 1500;
            producer.send(message(topic, "later").setDeliveryTimestamp(due).build());
            List<MessageView> found = received(consumer, 1);
            long late = System.currentTimeMillis() - due;
            return List.of(body(found.get(0)), -100 <= late && late < 5000);
        }
    }

    /** One of two delayed messages is recalled. */
    private Object recall(String topic, String group) throws Exception {
        try (Producer producer = producer(topic);
                SimpleConsumer consumer = consumer(topic, group, FilterExpression.SUB_ALL)) {
            long due = System.currentTimeMillis() + 2000;
            SendReceipt first = producer.send(message(topic, "first").setDeliveryTimestamp(due).build());
            producer.send(message(topic, "second").setDeliveryTimestamp(due + 500).build());
            String recalled = producer.recallMessage(topic, first.getRecallHandle())
                    .getMessageId().toString();
            List<String> bodies = bodies(received(consumer, 1));
            return List.of(recalled.equals(first.getMessageId().toString()), bodies);
        }
    }

    /** Committed, rolled back; and one that the broker has to ask about. */
    private Object transactions(String topic, String group) throws Exception {
        ProducerBuilder builder = provider.newProducerBuilder().setClientConfiguration(configuration)
                .setTopics(topic).setTransactionChecker(each -> TransactionResolution.COMMIT);
        try (Producer producer = builder.build()) {
            for (String end : List.of("commit", "rollback", "none")) {
                Transaction transaction = producer.beginTransaction();
                producer.send(message(topic, end).build(), transaction);
                if (end.equals("commit")) {
                    transaction.commit();
                } else if (end.equals("rollback")) {
                    transaction.rollback();
                }
            }
            try (SimpleConsumer consumer = consumer(topic, group, FilterExpression.SUB_ALL)) {
                return bodies(received(consumer, 2)).stream().sorted().collect(Collectors.toList());
            }
        }
    }

    /** Fails as often as it may; the deliveries until the dead letter has come. */
    private Object dead(String topic, String group) throws Exception {
        // The SDK changes the attempt of an ordered message in place.
        List<Integer> attempts = Collections.synchronizedList(new ArrayList<>());
        Seen seen = new Seen(each -> {
            attempts.add(each.getDeliveryAttempt());
            return ConsumeResult.FAILURE;
        });
        try (Producer producer = producer(topic); Pushing pushing = pushing(topic, group, seen)) {
            MessageBuilder bad = message(topic, "bad").setTag("t").setKeys("k").addProperty("city", "Rome");
            producer.send((group.startsWith("ordered") ? bad.setMessageGroup("orders") : bad).build());
            try (SimpleConsumer dead = consumer("%DLQ%" + group, "of-" + group, FilterExpression.SUB_ALL)) {
                List<MessageView> letters = received(dead, 1);
                return List.of(attempts, sorted(letters, each -> List.of(
                        body(each), each.getTag().orElse(""), String.join(",", each.getKeys()),
                        each.getProperties().get("city"))));
            }
        }
    }

    /** More consumers than queues: all of them get something. */
    private Object share(String topic, String group) throws Exception {
        List<Seen> all = new ArrayList<>();
        List<Pushing> consumers = new ArrayList<>();
        try (Producer producer = producer(topic)) {
            for (int index = 0; index < 3; index++) {
                all.add(new Seen(each -> pause(each)));
                consumers.add(new Pushing(pushBuilder(topic, group, all.get(index))
                        .setConsumptionThreadCount(1).setMaxCacheMessageCount(2).build()));
            }
            Set<String> sent = new HashSet<>();
            for (int index = 0; index < 60; index++) {
                sent.add("share " + index);
                producer.send(message(topic, "share " + index).build());
            }
            List<String> found = new ArrayList<>();
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (found.size() < 60 && System.nanoTime() < deadline) {
                Thread.sleep(50);
                found = all.stream().flatMap(each -> bodies(each.await(0)).stream()).toList();
            }
            boolean isComplete = found.size() == 60 && sent.equals(new HashSet<>(found));
            return List.of(isComplete, all.stream().allMatch(each -> each.await(0).size() > 0));
        } finally {
            consumers.forEach(Pushing::close);
        }
    }

    private static ConsumeResult pause(MessageView message) {
        try {
            Thread.sleep(20);
        } catch (InterruptedException stopped) {
            return ConsumeResult.FAILURE;
        }
        return ConsumeResult.SUCCESS;
    }

    /** A consumer that never finishes a message, for as long as this process lives. */
    private Object hold(String topic, String group) throws Exception {
        CountDownLatch never = new CountDownLatch(1);
        Seen seen = new Seen(each -> {
            try {
                never.await();
            } catch (InterruptedException stopped) {
                return ConsumeResult.FAILURE;
            }
            return ConsumeResult.SUCCESS;
        });
        pushing(topic, group, seen);
        try (Producer producer = producer(topic)) {
            producer.send(message(topic, "held").build());
        }
        return bodies(seen.await(1));
    }

    /** Sends and consumes until `finish`, whatever happens; returns when it works. */
    private Object start(String topic, String group) throws Exception {
        looping = new Seen(each -> ConsumeResult.SUCCESS);
        pushing(topic, group, looping);
        Producer producer = producer(topic);
        new Thread(() -> {
            for (int index = 0; !isFinished; index++) {
                try {
                    producer.send(message(topic, "loop " + index).build());
                    sent.add("loop " + index);
                    Thread.sleep(50);
                } catch (Exception failure) {
                    // A lost connection is none that the SDK declares.
                    failure.printStackTrace();
                }
            }
        }).start();
        return looping.await(1).size() > 0;
    }

    /** Whether sends and deliveries go on, and everything that was sent has come. */
    private Object finish(String topic, String group) throws Exception {
        int before = sent.size();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (sent.size() < before + 10 && System.nanoTime() < deadline) {
            Thread.sleep(50);
        }
        isFinished = true;
        while (!bodies(looping.await(0)).containsAll(sent) && System.nanoTime() < deadline) {
            Thread.sleep(50);
        }
        return List.of(sent.size() >= before + 10, bodies(looping.await(0)).containsAll(sent));
    }

    /** For consumers of another protocol. */
    private Object send(String topic, String group) throws Exception {
        try (Producer producer = producer(topic)) {
            SendReceipt receipt = producer.send(message(topic, "by gRPC").setTag("new")
                    .setKeys("k1", "k2").addProperty("city", "Rome").build());
            return List.of(receipt.getMessageId().toString());
        }
    }

    /** One message, whoever has sent it. */
    private Object read(String topic, String group) throws Exception {
        try (SimpleConsumer consumer = consumer(topic, group, FilterExpression.SUB_ALL)) {
            MessageView found = received(consumer, 1).get(0);
            return List.of(found.getMessageId().toString(), body(found), found.getTag().orElse(""),
                    new ArrayList<>(found.getKeys()), new TreeMap<>(found.getProperties()),
                    found.getMessageGroup().orElse(""), found.getDeliveryAttempt(),
                    found.getBornHost(), found.getBornTimestamp());
        }
    }

    /** What users see of a refusal: a service that did not start has it as its cause. */
    private Object refused(String topic, String group) throws Exception {
        try (Producer producer = producer(topic)) {
            producer.send(message(topic, "body").build());
            return "sent";
        } catch (Exception refusal) {
            return Stream.iterate((Throwable) refusal, Objects::nonNull, Throwable::getCause)
                    .map(String::valueOf).collect(Collectors.joining("; "));
        }
    }

    // Clients and messages.

    private Producer producer(String topic) throws ClientException {
        return provider.newProducerBuilder().setClientConfiguration(configuration)
                .setTopics(topic).build();
    }

    private SimpleConsumer consumer(String topic, String group, FilterExpression filter)
            throws ClientException {
        return provider.newSimpleConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup(group).setAwaitDuration(POLL)
                .setSubscriptionExpressions(Map.of(topic, filter)).build();
    }

    private Pushing pushing(String topic, String group, Seen seen) throws ClientException {
        return new Pushing(pushBuilder(topic, group, seen).build());
    }

    private PushConsumerBuilder pushBuilder(String topic, String group, Seen seen) {
        return provider.newPushConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                .setMessageListener(seen);
    }

    private MessageBuilder message(String topic, String body) {
        return provider.newMessageBuilder().setTopic(topic)
                .setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    private static MessageView next(SimpleConsumer consumer) throws ClientException {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (System.nanoTime() < deadline) {
            List<MessageView> found = consumer.receive(1, INVISIBLE);
            if (!found.isEmpty()) {
                return found.get(0);
            }
        }
        throw new IllegalStateException("no message has come");
    }

    /** Acknowledged, each. */
    private static List<MessageView> received(SimpleConsumer consumer, int count)
            throws ClientException {
        List<MessageView> found = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (found.size() < count && System.nanoTime() < deadline) {
            for (MessageView each : consumer.receive(16, INVISIBLE)) {
                found.add(each);
                consumer.ack(each);
            }
        }
        return found;
    }

    private static List<Object> sorted(List<MessageView> messages, Function<MessageView, Object> row) {
        return messages.stream().map(row).sorted((one, other) ->
                one.toString().compareTo(other.toString())).collect(Collectors.toList());
    }

    private static Map<String, List<String>> inGroups(List<MessageView> messages) {
        return messages.stream().collect(Collectors.groupingBy(each -> each.getMessageGroup().get(),
                TreeMap::new, Collectors.mapping(Sdk::body, Collectors.toList())));
    }

    private static List<String> bodies(List<MessageView> messages) {
        return messages.stream().map(Sdk::body).collect(Collectors.toList());
    }

    private static String body(MessageView message) {
        ByteBuffer body = message.getBody();
        return StandardCharsets.UTF_8.decode(body.duplicate()).toString();
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                    .map(each -> json(each.getKey().toString()) + ":" + json(each.getValue()))
                    .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof Collection<?> list) {
            return list.stream().map(Sdk::json).collect(Collectors.joining(",", "[", "]"));
        }
        if (value instanceof String text) {
            StringBuilder quoted = new StringBuilder("\"");
            for (char each : text.toCharArray()) {
                quoted.append(each < 32 || each == '"' || each == '\\' || each > 126
                        ? String.format("\\u%04x", (int) each) : String.valueOf(each));
            }
            return quoted.append('"').toString();
        }
        return String.valueOf(value);
    }

    /** Closed aside: that takes as long as the receives under way, up to 20 s. */
    private record Pushing(PushConsumer consumer) implements AutoCloseable {
        @Override
        public void close() {
            new Thread(() -> {
                try {
                    consumer.close();
                } catch (IOException failure) {
                    failure.printStackTrace();
                }
            }).start();
        }
    }

    /** A listener that keeps what comes. */
    private static final class Seen
            implements org.apache.rocketmq.client.apis.consumer.MessageListener {
        private final List<MessageView> messages = new ArrayList<>();
        private final Function<MessageView, ConsumeResult> answer;

        Seen(Function<MessageView, ConsumeResult> answer) {
            this.answer = answer;
        }

        @Override
        public ConsumeResult consume(MessageView message) {
            synchronized (messages) {
                messages.add(message);
                messages.notifyAll();
            }
            return answer.apply(message);
        }

        List<MessageView> await(int count) {
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            synchronized (messages) {
                while (messages.size() < count && System.nanoTime() < deadline) {
                    try {
                        messages.wait(100);
                    } catch (InterruptedException stopped) {
                        break;
                    }
                }
                return new ArrayList<>(messages);
            }
        }
    }
}
