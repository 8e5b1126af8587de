import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What listeners were called with, in order, until a test takes it. */
final class Inbox {
    private final BlockingQueue<Object> received = new LinkedBlockingQueue<>();

    void add(Object item) {
        received.add(item);
    }

    /** The next `count` items, or fewer when they are not there in time. */
    List<Object> take(JSONObject arguments) throws InterruptedException {
        int count = arguments.getIntValue("count");
        long deadline = System.nanoTime()
            + TimeUnit.MILLISECONDS.toNanos(arguments.getLongValue("timeoutMs"));
        List<Object> taken = new ArrayList<>();
        while (taken.size() < count) {
            Object item = received.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
            if (item == null) {
                break;
            }
            taken.add(item);
        }
        return taken;
    }
}
