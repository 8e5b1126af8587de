import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The clients of one kind that are alive, by the name the test gave them. */
final class Handles<T> {
    private final Map<String, T> alive = new ConcurrentHashMap<>();

    void add(JSONObject arguments, T client) {
        alive.put(arguments.getString("handle"), client);
    }

    T get(JSONObject arguments) {
        return get(arguments.getString("handle"));
    }

    T get(String handle) {
        return known(handle, alive.get(handle));
    }

    T remove(JSONObject arguments) {
        String handle = arguments.getString("handle");
        return known(handle, alive.remove(handle));
    }

    private T known(String handle, T client) {
        if (client == null) {
            throw new IllegalArgumentException("no handle " + handle + " in " + alive.keySet());
        }
        return client;
    }
}
