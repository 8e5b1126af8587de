import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** Java's own way of sharing queues in a group, without a group. */
final class AllocationCommands {
    private static final String NEARBY = "MACHINE_ROOM_NEARBY-";

    private AllocationCommands() {
    }

    static void addTo(Map<String, Driver.Command> commands) {
        commands.put("allocation.shares", AllocationCommands::shares);
    }

    /** For each of `clients`, the positions in `queues` that it gets. */
    private static Object shares(JSONObject arguments) {
        AllocateMessageQueueStrategy strategy = strategy(arguments.getString("name"), arguments);
        List<MessageQueue> queues = queues(arguments.getJSONArray("queues"));
        List<String> clients = arguments.getJSONArray("clients").toJavaList(String.class);
        List<List<Integer>> shares = new ArrayList<>();
        for (String client : clients) {
            List<Integer> share = new ArrayList<>();
            for (MessageQueue queue : strategy.allocate("group", client, queues, clients)) {
                share.add(queues.indexOf(queue));
            }
            shares.add(share);
        }
        return shares;
    }

    private static List<MessageQueue> queues(JSONArray texts) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < texts.size(); i++) {
            JSONArray parts = texts.getJSONArray(i);
            queues.add(new MessageQueue(parts.getString(0), parts.getString(1), parts.getIntValue(2)));
        }
        return queues;
    }

    private static AllocateMessageQueueStrategy strategy(String name, JSONObject arguments) {
        if (name.startsWith(NEARBY)) {
            AllocateMessageQueueStrategy inner = strategy(name.substring(NEARBY.length()), arguments);
            return new AllocateMachineRoomNearby(inner, new RoomsInNames());
        }
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash(arguments.getIntValue("virtualCount"));
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom rooms = new AllocateMessageQueueByMachineRoom();
                rooms.setConsumeridcs(
                    new HashSet<>(arguments.getJSONArray("rooms").toJavaList(String.class)));
                return rooms;
            default:
                throw new IllegalArgumentException(name);
        }
    }

    /** `room@rest` for brokers, `room-rest` for clients. */
    private static final class RoomsInNames implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().split("@")[0];
        }

        @Override
        public String consumerDeployIn(String client) {
            return client.split("-")[0];
        }
    }
}
