import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.consumer.MessageSelector;

/** What to consume: a tag expression, or one in SQL92. */
final class Selectors {
    private Selectors() {
    }

    static MessageSelector selector(JSONObject json) {
        String sql = json.getString("sql");
        return sql == null
            ? MessageSelector.byTag(json.getString("tags"))
            : MessageSelector.bySql(sql);
    }
}
