import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Push consumers, concurrent or orderly. Everything else is an option of the client. */
final class PushConsumerCommands {
    private static final Handles<Running> CONSUMERS = new Handles<>();
    private static final long SHUTDOWN_MS_MAX = 30_000;

    private PushConsumerCommands() {
    }

    static void addTo(Map<String, Driver.Command> commands) {
        commands.put("push.start", PushConsumerCommands::start);
        commands.put(
            "push.received", arguments -> CONSUMERS.get(arguments).received().take(arguments));
        commands.put("push.assignment", PushConsumerCommands::assignment);
        commands.put("push.shutdown", PushConsumerCommands::shutdown);
    }

    private static Object start(JSONObject arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            arguments.getString("group"),
            ClientSettings.signer(arguments),
            new AllocateMessageQueueAveragely());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        // What a test has received counts as consumed when the consumer shuts down.
        consumer.setAwaitTerminationMillisWhenShutdown(SHUTDOWN_MS_MAX);
        ClientSettings.apply(consumer, arguments);
        for (Object subscription : arguments.getJSONArray("subscriptions")) {
            JSONObject json = (JSONObject) subscription;
            consumer.subscribe(json.getString("topic"), Selectors.selector(json));
        }
        Inbox received = new Inbox();
        Listener listener = new Listener(received, arguments);
        // Two objects: the client takes one that can do both for orderly, whatever it is told.
        if (arguments.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) listener::consumeOrderly);
        } else {
            consumer.registerMessageListener(
                (MessageListenerConcurrently) listener::consumeConcurrently);
        }
        consumer.start();
        CONSUMERS.add(arguments, new Running(consumer, received));
        return null;
    }

    private static Object shutdown(JSONObject arguments) throws InterruptedException {
        Shutdown.run(CONSUMERS.remove(arguments).consumer()::shutdown);
        return null;
    }

    /** The queues of a topic that this consumer has now. */
    private static Object assignment(JSONObject arguments) {
        List<MessageQueue> queues = new ArrayList<>();
        for (MessageQueue queue : CONSUMERS.get(arguments).consumer().getDefaultMQPushConsumerImpl()
            .getRebalanceImpl().getProcessQueueTable().keySet()) {
            if (queue.getTopic().equals(arguments.getString("topic"))) {
                queues.add(queue);
            }
        }
        return Messages.queues(queues);
    }

    private record Running(DefaultMQPushConsumer consumer, Inbox received) {
    }

    /** Keeps what it is called with, fails as often as told, and replies if told to. */
    private static final class Listener {
        private final Inbox received;
        private final int failures;
        private final int retryLevel;
        private final String replier;

        Listener(Inbox received, JSONObject arguments) {
            this.received = received;
            this.failures = arguments.getIntValue("failures");
            this.retryLevel = arguments.getIntValue("retryLevel");
            this.replier = arguments.getString("replier");
        }

        ConsumeConcurrentlyStatus consumeConcurrently(
            List<MessageExt> messages, ConsumeConcurrentlyContext context) {
            context.setDelayLevelWhenNextConsume(retryLevel);
            return consume(messages)
                ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        }

        ConsumeOrderlyStatus consumeOrderly(
            List<MessageExt> messages, ConsumeOrderlyContext context) {
            return consume(messages)
                ? ConsumeOrderlyStatus.SUCCESS
                : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
        }

        private boolean consume(List<MessageExt> messages) {
            boolean succeeded = true;
            for (MessageExt message : messages) {
                received.add(Messages.json(message));
                succeeded &= message.getReconsumeTimes() >= failures;
                if (replier != null) {
                    reply(message);
                }
            }
            return succeeded;
        }

        /** The reply to a request is its body, reversed. */
        private void reply(MessageExt request) {
            DefaultMQProducer producer = ProducerCommands.PRODUCERS.get(replier);
            byte[] body = request.getBody();
            byte[] reversed = new byte[body.length];
            for (int i = 0; i < body.length; i++) {
                reversed[i] = body[body.length - 1 - i];
            }
            try {
                producer.send(MessageUtil.createReplyMessage(request, reversed));
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        }
    }
}
