import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages, queues and send results as JSON; bodies are base64. */
final class Messages {
    private Messages() {
    }

    static Message message(JSONObject json) {
        Message message = new Message(json.getString("topic"), json.getBytes("body"));
        message.setFlag(json.getIntValue("flag"));
        for (Map.Entry<String, Object> property : json.getJSONObject("properties").entrySet()) {
            // Not putUserProperty: tests may set properties that are reserved.
            MessageAccessor.putProperty(message, property.getKey(), (String) property.getValue());
        }
        return message;
    }

    static List<Message> messages(JSONArray array) {
        List<Message> messages = new ArrayList<>();
        for (Object json : array) {
            messages.add(message((JSONObject) json));
        }
        return messages;
    }

    static JSONObject json(Message message) {
        JSONObject json = new JSONObject();
        json.put("topic", message.getTopic());
        json.put("body", message.getBody());
        json.put("flag", message.getFlag());
        // A copy: consumers go on with the message while it is written.
        json.put("properties", new HashMap<>(message.getProperties()));
        return json;
    }

    static JSONObject json(MessageExt message) {
        JSONObject json = json((Message) message);
        json.put("brokerName", message.getBrokerName());
        json.put("queueId", message.getQueueId());
        json.put("queueOffset", message.getQueueOffset());
        json.put("physicalOffset", message.getCommitLogOffset());
        json.put("storeSize", message.getStoreSize());
        json.put("bodyCrc", message.getBodyCRC());
        json.put("sysFlag", message.getSysFlag());
        json.put("bornTimestamp", message.getBornTimestamp());
        json.put("bornHost", address(message.getBornHost()));
        json.put("storeTimestamp", message.getStoreTimestamp());
        json.put("storeHost", address(message.getStoreHost()));
        json.put("reconsumeTimes", message.getReconsumeTimes());
        json.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
        json.put("messageId", message.getMsgId());
        if (message instanceof MessageClientExt fromServer) {
            json.put("offsetId", fromServer.getOffsetMsgId());
        }
        return json;
    }

    static List<JSONObject> json(Collection<MessageExt> messages) {
        List<JSONObject> array = new ArrayList<>();
        for (MessageExt message : messages) {
            array.add(json(message));
        }
        return array;
    }

    /** Null for null: most commands take a queue as an option. */
    static MessageQueue queue(JSONObject json) {
        return json == null
            ? null
            : new MessageQueue(
                json.getString("topic"), json.getString("brokerName"), json.getIntValue("queueId"));
    }

    static JSONObject json(MessageQueue queue) {
        JSONObject json = new JSONObject();
        json.put("topic", queue.getTopic());
        json.put("brokerName", queue.getBrokerName());
        json.put("queueId", queue.getQueueId());
        return json;
    }

    static List<JSONObject> queues(Collection<MessageQueue> queues) {
        List<JSONObject> array = new ArrayList<>();
        for (MessageQueue queue : queues) {
            array.add(json(queue));
        }
        return array;
    }

    static JSONObject json(SendResult result) {
        JSONObject json = new JSONObject();
        json.put("status", result.getSendStatus());
        json.put("messageId", result.getMsgId());
        json.put("offsetId", result.getOffsetMsgId());
        json.put("queue", json(result.getMessageQueue()));
        json.put("queueOffset", result.getQueueOffset());
        json.put("transactionId", result.getTransactionId());
        json.put("regionId", result.getRegionId());
        json.put("recallHandle", recallHandle(result));
        return json;
    }

    /** By name: clients before 5.0 know none. */
    private static Object recallHandle(SendResult result) {
        try {
            return result.getClass().getMethod("getRecallHandle").invoke(result);
        } catch (ReflectiveOperationException error) {
            return null;
        }
    }

    private static String address(SocketAddress address) {
        InetSocketAddress host = (InetSocketAddress) address;
        return host.getAddress().getHostAddress() + ":" + host.getPort();
    }
}
