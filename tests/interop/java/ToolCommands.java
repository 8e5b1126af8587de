import com.alibaba.fastjson.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** What needs no client and no server: Java's own reading of bytes. And mqadmin. */
final class ToolCommands {
    /** Where the classes of bodies live, some in 4.9, some in 5.x, few in both. */
    private static final List<String> PACKAGES = List.of(
        "org.apache.rocketmq.common.protocol.",
        "org.apache.rocketmq.remoting.protocol.",
        "org.apache.rocketmq.common.",
        "org.apache.rocketmq.store.",
        "org.apache.rocketmq.broker.");

    private ToolCommands() {
    }

    static void addTo(Map<String, Driver.Command> commands) {
        commands.put("body.reserialize", ToolCommands::reserialize);
        commands.put("records.decode", ToolCommands::decodeRecords);
        commands.put("mqadmin", ToolCommands::mqadmin);
    }

    /** Reads a body as a peer would read it, and writes what was understood. */
    private static Object reserialize(JSONObject arguments) throws Exception {
        Class<?> type = bodyClass(arguments.getString("class"));
        Object body = RemotingSerializable.decode(arguments.getBytes("body"), type);
        return RemotingSerializable.encode(body);
    }

    /** The body of a pull reply, read as a client reads it. */
    private static Object decodeRecords(JSONObject arguments) {
        return Messages.json(MessageDecoder.decodes(ByteBuffer.wrap(arguments.getBytes("records"))));
    }

    private static Class<?> bodyClass(String name) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            try {
                return Class.forName(prefix + name);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(name + " in " + PACKAGES);
    }

    /** In this JVM: a new one for each command would take seconds. One at a time. */
    private static synchronized Object mqadmin(JSONObject arguments) throws Exception {
        forgetCommands();
        List<String> words = arguments.getJSONArray("words").toJavaList(String.class);
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        try {
            Shutdown.run(() -> MQAdminStartup.main0(
                words.toArray(new String[0]), ClientSettings.signer(arguments)));
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        JSONObject json = new JSONObject();
        json.put("output", printed.toString(StandardCharsets.UTF_8));
        json.put("complaints", complained.toString(StandardCharsets.UTF_8));
        return json;
    }

    /** Some commands keep their client, which is shut down after the first run. */
    private static void forgetCommands() throws IllegalAccessException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (List.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }
}
