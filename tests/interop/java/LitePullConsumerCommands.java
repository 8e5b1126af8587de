import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/** The lite pull consumer, by subscription (the group shares queues) or by assignment. */
final class LitePullConsumerCommands {
    private static final Handles<DefaultLitePullConsumer> CONSUMERS = new Handles<>();

    private LitePullConsumerCommands() {
    }

    static void addTo(Map<String, Driver.Command> commands) {
        commands.put("lite.start", LitePullConsumerCommands::start);
        commands.put("lite.queues", arguments -> Messages.queues(
            CONSUMERS.get(arguments).fetchMessageQueues(arguments.getString("topic"))));
        commands.put("lite.assign", LitePullConsumerCommands::assign);
        commands.put("lite.assignment", arguments -> Messages.queues(
            CONSUMERS.get(arguments).assignment()));
        commands.put("lite.poll", arguments -> Messages.json(
            CONSUMERS.get(arguments).poll(arguments.getLongValue("timeoutMs"))));
        commands.put("lite.seek", LitePullConsumerCommands::seek);
        commands.put("lite.commit", LitePullConsumerCommands::commit);
        commands.put("lite.committed", arguments -> CONSUMERS.get(arguments).committed(
            Messages.queue(arguments.getJSONObject("queue"))));
        commands.put("lite.shutdown", LitePullConsumerCommands::shutdown);
    }

    private static Object start(JSONObject arguments) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(
            arguments.getString("group"), ClientSettings.signer(arguments));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        ClientSettings.apply(consumer, arguments);
        for (Object subscription : arguments.getJSONArray("subscriptions")) {
            JSONObject json = (JSONObject) subscription;
            consumer.subscribe(json.getString("topic"), Selectors.selector(json));
        }
        consumer.start();
        CONSUMERS.add(arguments, consumer);
        return null;
    }

    private static Object shutdown(JSONObject arguments) throws InterruptedException {
        Shutdown.run(CONSUMERS.remove(arguments)::shutdown);
        return null;
    }

    private static Object assign(JSONObject arguments) {
        List<MessageQueue> queues = new ArrayList<>();
        for (Object queue : arguments.getJSONArray("queues")) {
            queues.add(Messages.queue((JSONObject) queue));
        }
        CONSUMERS.get(arguments).assign(queues);
        return null;
    }

    private static Object seek(JSONObject arguments) throws Exception {
        CONSUMERS.get(arguments).seek(
            Messages.queue(arguments.getJSONObject("queue")), arguments.getLongValue("offset"));
        return null;
    }

    /** Everything that was polled, written to the broker before this returns. */
    private static Object commit(JSONObject arguments) throws Exception {
        DefaultLitePullConsumer consumer = CONSUMERS.get(arguments);
        consumer.commitSync();
        consumer.getOffsetStore().persistAll(consumer.assignment());
        return null;
    }
}
