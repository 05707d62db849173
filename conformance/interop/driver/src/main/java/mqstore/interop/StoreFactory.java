package mqstore.interop;

import java.io.IOException;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/** What differs between the public APIs of 4.x and 5.x: how a store is made. */
public interface StoreFactory {
    /** A store that asks clock for the time wherever it asks the clock that it hands out. */
    DefaultMessageStore make(MessageStoreConfig config, BrokerConfig broker, SystemClock clock) throws IOException;

    /** The one that was compiled in. */
    static StoreFactory find() throws ReflectiveOperationException {
        for (String version : new String[] {"v4", "v5"}) {
            try {
                return (StoreFactory) Class.forName("mqstore.interop." + version + ".Factory").getConstructor().newInstance();
            } catch (ClassNotFoundException e) {
                // the other API's
            }
        }
        throw new ClassNotFoundException("neither v4.Factory nor v5.Factory was compiled");
    }
}
