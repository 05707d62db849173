package mqstore.interop.v5;

import java.io.IOException;
import java.util.concurrent.ConcurrentHashMap;
import mqstore.interop.StoreFactory;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

public final class Factory implements StoreFactory {
    @Override
    public DefaultMessageStore make(MessageStoreConfig config, BrokerConfig broker, SystemClock clock) throws IOException {
        return new DefaultMessageStore(config, new BrokerStatsManager("interop", false), (topic, queueId, next, tags, stored, bits, props) -> { }, broker, new ConcurrentHashMap<>()) {
            @Override
            public SystemClock getSystemClock() {
                return clock;
            }

            @Override
            public long now() {
                return clock.now();
            }
        };
    }
}
