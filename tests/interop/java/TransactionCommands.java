import com.alibaba.fastjson.JSONObject;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Transactional sending. The test says in advance what the local transaction returns and what
 * the broker is told when it asks again; every question of the broker is kept for the test.
 */
final class TransactionCommands {
    private static final Handles<Transactions> TRANSACTIONS = new Handles<>();

    private TransactionCommands() {
    }

    static void addTo(Map<String, Driver.Command> commands) {
        commands.put("transaction.start", TransactionCommands::start);
        commands.put("transaction.send", TransactionCommands::send);
        commands.put(
            "transaction.checks",
            arguments -> TRANSACTIONS.get(arguments).checks.take(arguments));
        commands.put("transaction.shutdown", TransactionCommands::shutdown);
    }

    private static Object start(JSONObject arguments) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(
            arguments.getString("group"), ClientSettings.signer(arguments));
        ClientSettings.apply(producer, arguments);
        Transactions transactions = new Transactions(producer, arguments);
        producer.setTransactionListener(transactions);
        producer.start();
        TRANSACTIONS.add(arguments, transactions);
        return null;
    }

    private static Object shutdown(JSONObject arguments) throws InterruptedException {
        Shutdown.run(TRANSACTIONS.remove(arguments).producer::shutdown);
        return null;
    }

    private static Object send(JSONObject arguments) throws Exception {
        Deque<LocalTransactionState> states = new ArrayDeque<>();
        for (Object state : arguments.getJSONArray("states")) {
            states.add(LocalTransactionState.valueOf((String) state));
        }
        TransactionSendResult result = TRANSACTIONS.get(arguments).producer.sendMessageInTransaction(
            Messages.message(arguments.getJSONObject("message")), states);
        return Messages.json(result);
    }

    private static final class Transactions implements TransactionListener {
        private final TransactionMQProducer producer;
        private final LocalTransactionState stateOfOthers;
        private final Inbox checks = new Inbox();
        private final Map<String, Deque<LocalTransactionState>> statesLeft =
            new ConcurrentHashMap<>();

        Transactions(TransactionMQProducer producer, JSONObject arguments) {
            this.producer = producer;
            String state = arguments.getString("stateOfOthers");
            stateOfOthers = state == null
                ? LocalTransactionState.UNKNOW
                : LocalTransactionState.valueOf(state);
        }

        @Override
        @SuppressWarnings("unchecked")
        public LocalTransactionState executeLocalTransaction(Message message, Object states) {
            statesLeft.put(message.getTransactionId(), (Deque<LocalTransactionState>) states);
            return nextState(message.getTransactionId());
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            checks.add(Messages.json(message));
            return nextState(message.getTransactionId());
        }

        /**
         * The last state stays: a broker may ask about a transaction that is over. It asks from
         * several threads, and about messages of earlier producers of the group too.
         */
        private LocalTransactionState nextState(String transactionId) {
            Deque<LocalTransactionState> states = statesLeft.get(transactionId);
            if (states == null) {
                return stateOfOthers;
            }
            synchronized (states) {
                return states.size() > 1 ? states.poll() : states.element();
            }
        }
    }
}
