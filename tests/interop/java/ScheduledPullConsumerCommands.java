import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import org.apache.rocketmq.client.consumer.MQPullConsumer;
import org.apache.rocketmq.client.consumer.MQPullConsumerScheduleService;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullTaskContext;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The scheduled pull: a group shares queues, and a task of ours pulls each of them in turn. */
@SuppressWarnings("deprecation")
final class ScheduledPullConsumerCommands {
    private static final Handles<Running> CONSUMERS = new Handles<>();
    private static final int COUNT_MAX = 32;
    private static final int PAUSE_MS = 20;

    private ScheduledPullConsumerCommands() {
    }

    static void addTo(Map<String, Driver.Command> commands) {
        commands.put("scheduled.start", ScheduledPullConsumerCommands::start);
        commands.put("scheduled.received", arguments ->
            CONSUMERS.get(arguments).received().take(arguments));
        commands.put("scheduled.shutdown", ScheduledPullConsumerCommands::shutdown);
    }

    private record Running(MQPullConsumerScheduleService service, Inbox received) {
    }

    private static Object start(JSONObject arguments) throws Exception {
        MQPullConsumerScheduleService service = new MQPullConsumerScheduleService(
            arguments.getString("group"), ClientSettings.signer(arguments));
        ClientSettings.apply(service.getDefaultMQPullConsumer(), arguments);
        Inbox received = new Inbox();
        service.registerPullTaskCallback(
            arguments.getString("topic"),
            (queue, context) -> pull(queue, context, received));
        service.start();
        CONSUMERS.add(arguments, new Running(service, received));
        return null;
    }

    private static Object shutdown(JSONObject arguments) throws InterruptedException {
        Shutdown.run(CONSUMERS.remove(arguments).service()::shutdown);
        return null;
    }

    /** From where the group is, on. */
    private static void pull(MessageQueue queue, PullTaskContext context, Inbox received) {
        MQPullConsumer consumer = context.getPullConsumer();
        context.setPullNextDelayTimeMillis(PAUSE_MS);
        try {
            long offset = Math.max(0, consumer.fetchConsumeOffset(queue, false));
            PullResult result = consumer.pull(queue, "*", offset, COUNT_MAX);
            if (result.getPullStatus() == PullStatus.FOUND) {
                for (MessageExt message : result.getMsgFoundList()) {
                    received.add(Messages.json(message));
                }
            }
            consumer.updateConsumeOffset(queue, result.getNextBeginOffset());
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }
}
