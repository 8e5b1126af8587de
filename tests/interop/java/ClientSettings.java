import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.ParserConfig;
import com.alibaba.fastjson.util.TypeUtils;
import java.lang.reflect.Method;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.remoting.RPCHook;

/** The arguments that every client is started with. */
final class ClientSettings {
    private static final int API_TIMEOUT_MS = 20_000;

    private ClientSettings() {
    }

    /** Signs every request when the arguments have an accessKey; null when they have none. */
    static RPCHook signer(JSONObject arguments) {
        String accessKey = arguments.getString("accessKey");
        return accessKey == null
            ? null
            : new AclClientRPCHook(
                new SessionCredentials(accessKey, arguments.getString("secretKey")));
    }

    /** The name server, an instance of its own per handle, and `options`: any setter by name. */
    static void apply(ClientConfig client, JSONObject arguments) throws Exception {
        client.setNamesrvAddr(arguments.getString("nameServer"));
        client.setInstanceName(arguments.getString("handle"));
        // Tests make topics while clients run; the default is half a minute.
        client.setPollNameServerInterval(1000);
        // A busy machine is no finding; after the default of three seconds there is no route.
        client.setMqClientApiTimeout(API_TIMEOUT_MS);
        for (Map.Entry<String, Object> option : arguments.getJSONObject("options").entrySet()) {
            set(client, option.getKey(), option.getValue());
        }
    }

    /** By reflection, because enums live in other packages in 5.x and tests want any option. */
    private static void set(ClientConfig client, String name, Object value) throws Exception {
        String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
        for (Method method : client.getClass().getMethods()) {
            if (method.getName().equals(setter) && method.getParameterCount() == 1) {
                Class<?> type = method.getParameterTypes()[0];
                method.invoke(client, TypeUtils.cast(value, type, ParserConfig.getGlobalInstance()));
                return;
            }
        }
        throw new IllegalArgumentException(client.getClass().getSimpleName() + " has no " + setter);
    }
}
