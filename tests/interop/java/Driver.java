import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;

/**
 * Runs real Java clients on command: one JSON object per line on stdin, one per line on stdout.
 *
 * <pre>
 * {"id":1,"command":"producer.send","arguments":{"handle":"h","message":{..}}}
 * {"id":1,"result":{..}}   or   {"id":1,"error":{"type":"MQBrokerException","code":17,"message":".."}}
 * </pre>
 *
 * Each command runs in a thread of its own, so a command that waits holds up no other. Answers
 * come in any order. When stdin ends, so does the process: no test leaves a JVM behind.
 *
 * A new command is a line in one of the `..Commands` classes; a new class is a line in `main`.
 */
public final class Driver {
    /** What a command does. The result is written as JSON; null where there is none. */
    interface Command {
        Object run(JSONObject arguments) throws Throwable;
    }

    private final Map<String, Command> commands = new TreeMap<>();
    private final PrintStream answers;

    private Driver(PrintStream answers) {
        this.answers = answers;
    }

    public static void main(String[] args) throws IOException {
        Driver driver = new Driver(new PrintStream(System.out, true, StandardCharsets.UTF_8));
        // Libraries print what they like; stdout is for answers alone.
        System.setOut(System.err);
        driver.commands.put("ready", arguments -> true);
        ProducerCommands.addTo(driver.commands);
        TransactionCommands.addTo(driver.commands);
        PushConsumerCommands.addTo(driver.commands);
        PullConsumerCommands.addTo(driver.commands);
        LitePullConsumerCommands.addTo(driver.commands);
        ScheduledPullConsumerCommands.addTo(driver.commands);
        AllocationCommands.addTo(driver.commands);
        ToolCommands.addTo(driver.commands);
        driver.serve(new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)));
        Runtime.getRuntime().halt(0);
    }

    private void serve(BufferedReader lines) throws IOException {
        ExecutorService threads = Executors.newCachedThreadPool();
        String line;
        while ((line = lines.readLine()) != null) {
            JSONObject request = JSON.parseObject(line);
            threads.execute(() -> answer(request));
        }
    }

    private void answer(JSONObject request) {
        JSONObject answer = new JSONObject();
        answer.put("id", request.get("id"));
        try {
            Command command = commands.get(request.getString("command"));
            if (command == null) {
                throw new IllegalArgumentException("commands are " + commands.keySet());
            }
            answer.put("result", command.run(request.getJSONObject("arguments")));
        } catch (Throwable failure) {
            answer.put("error", describe(failure));
        }
        String line = answer.toString(SerializerFeature.DisableCircularReferenceDetect);
        synchronized (answers) {
            answers.println(line);
        }
    }

    private static JSONObject describe(Throwable failure) {
        JSONObject error = new JSONObject();
        error.put("type", failure.getClass().getSimpleName());
        error.put("message", String.valueOf(failure.getMessage()));
        if (failure instanceof MQBrokerException refused) {
            error.put("code", refused.getResponseCode());
        } else if (failure instanceof MQClientException failed) {
            error.put("code", failed.getResponseCode());
        }
        return error;
    }
}
