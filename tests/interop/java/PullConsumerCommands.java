import com.alibaba.fastjson.JSONObject;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The old pull consumer: the client that lets a test choose queue and offset by itself. */
@SuppressWarnings("deprecation")
final class PullConsumerCommands {
    private static final Handles<DefaultMQPullConsumer> CONSUMERS = new Handles<>();

    private PullConsumerCommands() {
    }

    static void addTo(Map<String, Driver.Command> commands) {
        commands.put("pull.start", PullConsumerCommands::start);
        commands.put("pull.queues", PullConsumerCommands::queues);
        commands.put("pull.pull", PullConsumerCommands::pull);
        commands.put("pull.pullOrWait", PullConsumerCommands::pullOrWait);
        commands.put("pull.minOffset", onQueue((consumer, queue, arguments) ->
            consumer.minOffset(queue)));
        commands.put("pull.maxOffset", onQueue((consumer, queue, arguments) ->
            consumer.maxOffset(queue)));
        commands.put("pull.searchOffset", onQueue((consumer, queue, arguments) ->
            consumer.searchOffset(queue, arguments.getLongValue("timestamp"))));
        commands.put("pull.earliestStoreTime", onQueue((consumer, queue, arguments) ->
            consumer.earliestMsgStoreTime(queue)));
        commands.put("pull.consumerOffset", onQueue((consumer, queue, arguments) ->
            consumer.fetchConsumeOffset(queue, true)));
        commands.put("pull.updateConsumerOffset", onQueue((consumer, queue, arguments) -> {
            // The client's own ways to commit are one-way: a broker with many threads may answer a
            // question that was asked later first.
            long offset = arguments.getLongValue("offset");
            consumer.updateConsumeOffset(queue, offset);
            consumer.getOffsetStore().updateConsumeOffsetToBroker(queue, offset, false);
            return null;
        }));
        commands.put("pull.shutdown", PullConsumerCommands::shutdown);
    }

    private interface QueueCommand {
        Object run(DefaultMQPullConsumer consumer, MessageQueue queue, JSONObject arguments)
            throws Exception;
    }

    private static Driver.Command onQueue(QueueCommand command) {
        return arguments -> command.run(
            CONSUMERS.get(arguments), Messages.queue(arguments.getJSONObject("queue")), arguments);
    }

    private static Object start(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(
            arguments.getString("group"), ClientSettings.signer(arguments));
        ClientSettings.apply(consumer, arguments);
        consumer.start();
        CONSUMERS.add(arguments, consumer);
        return null;
    }

    private static Object shutdown(JSONObject arguments) throws InterruptedException {
        Shutdown.run(CONSUMERS.remove(arguments)::shutdown);
        return null;
    }

    private static Object queues(JSONObject arguments) throws Exception {
        return Messages.queues(
            CONSUMERS.get(arguments).fetchSubscribeMessageQueues(arguments.getString("topic")));
    }

    private static Object pull(JSONObject arguments) throws Exception {
        return json(CONSUMERS.get(arguments).pull(
            Messages.queue(arguments.getJSONObject("queue")),
            Selectors.selector(arguments),
            arguments.getLongValue("offset"),
            arguments.getIntValue("countMax")));
    }

    /** A long poll: the broker answers when there is a message. Tags only. */
    private static Object pullOrWait(JSONObject arguments) throws Exception {
        return json(CONSUMERS.get(arguments).pullBlockIfNotFound(
            Messages.queue(arguments.getJSONObject("queue")),
            arguments.getString("tags"),
            arguments.getLongValue("offset"),
            arguments.getIntValue("countMax")));
    }

    private static JSONObject json(PullResult result) {
        List<MessageExt> found = result.getMsgFoundList();
        JSONObject json = new JSONObject();
        json.put("status", result.getPullStatus());
        json.put("nextBeginOffset", result.getNextBeginOffset());
        json.put("minOffset", result.getMinOffset());
        json.put("maxOffset", result.getMaxOffset());
        json.put("messages", Messages.json(found == null ? List.of() : found));
        return json;
    }
}
