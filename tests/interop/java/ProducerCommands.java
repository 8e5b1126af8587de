import com.alibaba.fastjson.JSONObject;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sending, request and reply, and the queries that every Java client offers. */
final class ProducerCommands {
    /** Push consumers reply to requests through one of these. */
    static final Handles<DefaultMQProducer> PRODUCERS = new Handles<>();

    private static final MessageQueueSelector BY_HASH = new SelectMessageQueueByHash();

    private ProducerCommands() {
    }

    static void addTo(Map<String, Driver.Command> commands) {
        commands.put("producer.start", ProducerCommands::start);
        commands.put("producer.send", ProducerCommands::send);
        commands.put("producer.sendAsync", ProducerCommands::sendAsync);
        commands.put("producer.sendOneway", ProducerCommands::sendOneway);
        commands.put("producer.sendBatch", ProducerCommands::sendBatch);
        commands.put("producer.request", ProducerCommands::request);
        commands.put("producer.queues", ProducerCommands::queues);
        commands.put("producer.queryByKey", ProducerCommands::queryByKey);
        commands.put("producer.view", ProducerCommands::view);
        commands.put("producer.recall", ProducerCommands::recall);
        commands.put("producer.shutdown", ProducerCommands::shutdown);
    }

    private static Object start(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(
            arguments.getString("group"),
            ClientSettings.signer(arguments),
            arguments.getBooleanValue("traced"),
            null);
        ClientSettings.apply(producer, arguments);
        producer.start();
        PRODUCERS.add(arguments, producer);
        return null;
    }

    private static Object shutdown(JSONObject arguments) throws InterruptedException {
        Shutdown.run(PRODUCERS.remove(arguments)::shutdown);
        return null;
    }

    private static Object send(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = PRODUCERS.get(arguments);
        Message message = Messages.message(arguments.getJSONObject("message"));
        MessageQueue queue = Messages.queue(arguments.getJSONObject("queue"));
        String shardingKey = arguments.getString("shardingKey");
        if (queue != null) {
            return Messages.json(producer.send(message, queue));
        } else if (shardingKey != null) {
            return Messages.json(producer.send(message, BY_HASH, shardingKey));
        }
        return Messages.json(producer.send(message));
    }

    private static Object sendAsync(JSONObject arguments) throws Throwable {
        DefaultMQProducer producer = PRODUCERS.get(arguments);
        Message message = Messages.message(arguments.getJSONObject("message"));
        MessageQueue queue = Messages.queue(arguments.getJSONObject("queue"));
        String shardingKey = arguments.getString("shardingKey");
        Sent sent = new Sent();
        if (queue != null) {
            producer.send(message, queue, sent);
        } else if (shardingKey != null) {
            producer.send(message, BY_HASH, shardingKey, sent);
        } else {
            producer.send(message, sent);
        }
        return Messages.json(sent.get());
    }

    private static Object sendOneway(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = PRODUCERS.get(arguments);
        Message message = Messages.message(arguments.getJSONObject("message"));
        MessageQueue queue = Messages.queue(arguments.getJSONObject("queue"));
        String shardingKey = arguments.getString("shardingKey");
        if (queue != null) {
            producer.sendOneway(message, queue);
        } else if (shardingKey != null) {
            producer.sendOneway(message, BY_HASH, shardingKey);
        } else {
            producer.sendOneway(message);
        }
        return null;
    }

    private static Object sendBatch(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = PRODUCERS.get(arguments);
        List<Message> messages = Messages.messages(arguments.getJSONArray("messages"));
        MessageQueue queue = Messages.queue(arguments.getJSONObject("queue"));
        return Messages.json(
            queue == null ? producer.send(messages) : producer.send(messages, queue));
    }

    /** The reply of whoever consumes the request. */
    private static Object request(JSONObject arguments) throws Exception {
        Message request = Messages.message(arguments.getJSONObject("message"));
        return Messages.json(
            PRODUCERS.get(arguments).request(request, arguments.getLongValue("timeoutMs")));
    }

    private static Object queues(JSONObject arguments) throws Exception {
        return Messages.queues(
            PRODUCERS.get(arguments).fetchPublishMessageQueues(arguments.getString("topic")));
    }

    /** By name: clients before 5.0 cannot. */
    private static Object recall(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = PRODUCERS.get(arguments);
        return producer.getClass().getMethod("recallMessage", String.class, String.class)
            .invoke(producer, arguments.getString("topic"), arguments.getString("recallHandle"));
    }

    private static Object queryByKey(JSONObject arguments) throws Exception {
        QueryResult found = PRODUCERS.get(arguments).queryMessage(
            arguments.getString("topic"),
            arguments.getString("key"),
            arguments.getIntValue("countMax"),
            0,
            Long.MAX_VALUE);
        return Messages.json(found.getMessageList());
    }

    /** One message by its offset id or its unique key; the client finds out which it is. */
    private static Object view(JSONObject arguments) throws Exception {
        MessageExt message = PRODUCERS.get(arguments).viewMessage(
            arguments.getString("topic"), arguments.getString("id"));
        return message == null ? null : Messages.json(message);
    }

    /** The outcome of an asynchronous send, to wait for. */
    private static final class Sent implements SendCallback {
        private final CompletableFuture<SendResult> outcome = new CompletableFuture<>();

        @Override
        public void onSuccess(SendResult result) {
            outcome.complete(result);
        }

        @Override
        public void onException(Throwable failure) {
            outcome.completeExceptionally(failure);
        }

        SendResult get() throws Throwable {
            try {
                return outcome.get();
            } catch (ExecutionException failure) {
                // What the callback was called with, not what a future makes of it.
                throw failure.getCause();
            }
        }
    }
}
