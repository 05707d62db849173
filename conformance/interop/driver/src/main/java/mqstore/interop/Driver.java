package mqstore.interop;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.store.*;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Drives the original's store: a JSON object a line on standard input, one a line back on standard output. "op" names the call; the answer has its results, or "error".
 * One call at a time. The end of standard input ends the process without closing the store.
 */
public final class Driver {
    private static final Base64.Encoder ENCODER = Base64.getEncoder();
    private static final Base64.Decoder DECODER = Base64.getDecoder();

    private final StoreFactory factory;
    private final BufferedReader in;
    private final PrintStream out;
    private final DriverClock clock = new DriverClock();
    private DefaultMessageStore store;
    private MessageStoreConfig config;

    /** The real time, or the one that it was told. */
    static final class DriverClock extends SystemClock {
        volatile long fixed;

        @Override
        public long now() {
            long t = fixed;
            return t != 0 ? t : System.currentTimeMillis();
        }
    }

    private Driver(StoreFactory factory, BufferedReader in, PrintStream out) {
        this.factory = factory;
        this.in = in;
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err); // what libraries print must not get between the answers
        Driver d = new Driver(StoreFactory.find(), new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16), answers);
        d.run();
    }

    private void run() throws Exception {
        for (String line; (line = in.readLine()) != null; ) {
            Map<String, Object> answer;
            try {
                answer = call(JSON.parseObject(line));
            } catch (Throwable e) {
                e.printStackTrace();
                answer = answer("error", e.toString());
            }
            write(answer);
        }
        Runtime.getRuntime().halt(3);
    }

    private void write(Object answer) {
        out.println(JSON.toJSONString(answer));
        out.flush();
    }

    static Map<String, Object> answer(Object... nameValue) {
        Map<String, Object> m = new LinkedHashMap<>();
        for (int i = 0; i < nameValue.length; i += 2) {
            m.put((String) nameValue[i], nameValue[i + 1]);
        }
        return m;
    }

    private Map<String, Object> call(JSONObject q) throws Exception {
        String topic = q.getString("topic");
        int queueId = q.getIntValue("queueId");
        long offset = q.getLongValue("offset");
        switch (q.getString("op")) {
            case "open":
                return open(q);
            case "clock":
                clock.fixed = q.getLongValue("now");
                return answer();
            case "put":
                return put(q);
            case "putBatch":
                return putBatch(q);
            case "get":
                return get(q);
            case "query":
                return query(q);
            case "queue":
                return answer("min", store.getMinOffsetInQueue(topic, queueId), "max", store.getMaxOffsetInQueue(topic, queueId),
                    "earliest", store.getEarliestMessageTime(topic, queueId), "total", store.getMessageTotalInQueue(topic, queueId));
            case "log":
                return answer("min", store.getMinPhyOffset(), "max", store.getMaxPhyOffset(), "behind", store.dispatchBehindBytes(), "earliest", store.getEarliestMessageTime(),
                    "slaves", store.getHaService().getConnectionCount().get(), "acked", store.getHaService().getPush2SlaveMaxOffset().get());
            case "queues":
                return queues();
            case "time":
                return answer("offset", store.getOffsetInQueueByTime(topic, queueId, q.getLongValue("time")));
            case "storeTime":
                return answer("time", store.getMessageStoreTimeStamp(topic, queueId, offset));
            case "phyOffset":
                return answer("offset", store.getCommitLogOffsetInQueue(topic, queueId, offset));
            case "lookup":
                return lookup(offset);
            case "logData":
                return logData(offset);
            case "dispatched":
                return dispatched(q.getLongValue("ms"));
            case "flush":
                return answer("flushed", store.flush());
            case "flushQueues":
                return flushQueues();
            case "runtime":
                return new LinkedHashMap<>(store.getRuntimeInfo());
            case "deleteExpired":
                return deleteExpired(q.getLongValue("olderThan"));
            case "append":
                byte[] data = DECODER.decode(q.getString("bytes"));
                return answer("ok", store.appendToCommitLog(offset, data, 0, data.length));
            case "look":
                return look(offset);
            case "haMaster":
                store.updateHaMasterAddress(q.getString("addr"));
                return answer();
            case "bench":
                return new Bench(store).run(q);
            case "usage":
                return Bench.usage();
            case "close":
                store.shutdown();
                store = null;
                return answer();
            case "crash":
                Runtime.getRuntime().halt(7);
                return null;
            default:
                throw new IllegalArgumentException("no such op: " + q.getString("op"));
        }
    }

    private Map<String, Object> open(JSONObject q) throws Exception {
        if (store != null) {
            throw new IllegalStateException("a store is open");
        }
        String dir = q.getString("dir");
        config = new MessageStoreConfig();
        config.setStorePathRootDir(dir);
        config.setStorePathCommitLog(dir + "/commitlog");
        MixAll.properties2Object(properties(q.getJSONObject("config")), config);
        BrokerConfig broker = new BrokerConfig();
        MixAll.properties2Object(properties(q.getJSONObject("broker")), broker);
        DefaultMessageStore s = factory.make(config, broker, clock);
        long began = System.nanoTime();
        if (!s.load()) {
            s.shutdown();
            return answer("error", "load() answered false");
        }
        long loaded = System.nanoTime();
        s.start();
        store = s;
        return answer("loadMicros", (loaded - began) / 1000, "startMicros", (System.nanoTime() - loaded) / 1000);
    }

    private static Properties properties(JSONObject o) {
        Properties p = new Properties();
        if (o != null) {
            o.forEach((k, v) -> p.setProperty(k, String.valueOf(v)));
        }
        return p;
    }

    private static SocketAddress host(JSONObject h) throws Exception {
        return new InetSocketAddress(InetAddress.getByAddress(DECODER.decode(h.getString("addr"))), h.getIntValue("port"));
    }

    private static void fill(MessageExt m, JSONObject q) throws Exception {
        m.setTopic(q.getString("topic"));
        m.setQueueId(q.getIntValue("queueId"));
        m.setFlag(q.getIntValue("flag"));
        m.setSysFlag(q.getIntValue("sysFlag"));
        m.setBornTimestamp(q.getLongValue("bornTimestamp"));
        m.setBornHost(host(q.getJSONObject("bornHost")));
        m.setStoreHost(host(q.getJSONObject("storeHost")));
        m.setReconsumeTimes(q.getIntValue("reconsumeTimes"));
        m.setPreparedTransactionOffset(q.getLongValue("preparedTransactionOffset"));
        m.setBody(DECODER.decode(q.getString("body")));
        String properties = new String(DECODER.decode(q.getString("properties")), StandardCharsets.UTF_8);
        MessageAccessor.setProperties(m, inOrder(properties));
        if ((Object) m instanceof MessageExtBrokerInner) {
            ((MessageExtBrokerInner) (Object) m).setPropertiesString(properties);
        }
    }

    /** The properties in the order of the text, those without a value too: what is encoded from them again is then the same text. */
    private static Map<String, String> inOrder(String text) {
        Map<String, String> m = new LinkedHashMap<>();
        for (String entry : text.split("\u0002")) {
            int end = entry.indexOf('\u0001');
            if (end > 0) {
                m.put(entry.substring(0, end), entry.substring(end + 1));
            }
        }
        return m;
    }

    private Map<String, Object> put(JSONObject q) throws Exception {
        MessageExtBrokerInner m = new MessageExtBrokerInner();
        fill(m, q);
        return result(store.putMessage(m));
    }

    private Map<String, Object> putBatch(JSONObject q) throws Exception {
        MessageExtBatch m = new MessageExtBatch();
        fill(m, q);
        return result(store.putMessages(m));
    }

    private static Map<String, Object> result(PutMessageResult r) {
        Map<String, Object> a = answer("status", r.getPutMessageStatus().name());
        AppendMessageResult w = r.getAppendMessageResult();
        if (w != null) {
            a.put("append", w.getStatus().name());
            a.put("phyOffset", w.getWroteOffset());
            a.put("size", w.getWroteBytes());
            a.put("queueOffset", w.getLogicsOffset());
            a.put("storeTimestamp", w.getStoreTimestamp());
            a.put("messages", w.getMsgNum());
            a.put("msgId", w.getMsgId());
        }
        return a;
    }

    private Map<String, Object> get(JSONObject q) throws Exception {
        GetMessageResult r = store.getMessage("interop", q.getString("topic"), q.getIntValue("queueId"), q.getLongValue("offset"), q.getIntValue("max"), q.getBooleanValue("filter") ? new Asking() : null);
        if (r == null) {
            return answer("status", "null");
        }
        try {
            return answer("status", r.getStatus().name(), "next", r.getNextBeginOffset(), "min", r.getMinOffset(), "max", r.getMaxOffset(),
                "suggestSlave", r.isSuggestPullingFromSlave(), "bytes", r.getBufferTotalSize(), "records", records(r.getMessageMapedList()));
        } finally {
            r.release();
        }
    }

    /** A filter that asks the other side. */
    private final class Asking implements MessageFilter {
        @Override
        public boolean isMatchedByConsumeQueue(Long tagsCode, ConsumeQueueExt.CqExtUnit unit) {
            return ask(answer("ask", "unit", "ok", tagsCode != null, "tagsCode", tagsCode == null ? 0 : tagsCode));
        }

        @Override
        public boolean isMatchedByCommitLog(ByteBuffer record, Map<String, String> properties) {
            return ask(answer("ask", "record", "record", ENCODER.encodeToString(bytes(record.duplicate()))));
        }

        private boolean ask(Map<String, Object> question) {
            write(question);
            try {
                return JSON.parseObject(in.readLine()).getBooleanValue("match");
            } catch (java.io.IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        }
    }

    private static List<Map<String, Object>> records(List<SelectMappedBufferResult> found) {
        List<Map<String, Object>> l = new ArrayList<>();
        for (SelectMappedBufferResult b : found) {
            l.add(answer("phyOffset", b.getStartOffset(), "bytes", ENCODER.encodeToString(bytes(b.getByteBuffer().duplicate()))));
        }
        return l;
    }

    private static byte[] bytes(ByteBuffer b) {
        byte[] a = new byte[b.remaining()];
        b.get(a);
        return a;
    }

    private Map<String, Object> query(JSONObject q) throws Exception {
        QueryMessageResult r = store.queryMessage(q.getString("topic"), q.getString("key"), q.getIntValue("max"), q.getLongValue("begin"), q.getLongValue("end"));
        if (r == null) {
            return answer("records", Collections.emptyList());
        }
        try {
            List<String> l = new ArrayList<>();
            for (ByteBuffer b : r.getMessageBufferList()) {
                l.add(ENCODER.encodeToString(bytes(b.duplicate())));
            }
            return answer("records", l, "lastTime", r.getIndexLastUpdateTimestamp(), "lastOffset", r.getIndexLastUpdatePhyoffset());
        } finally {
            r.release();
        }
    }

    private Map<String, Object> queues() throws Exception {
        List<Map<String, Object>> l = new ArrayList<>();
        for (var topic : store.getConsumeQueueTable().entrySet()) {
            for (var queue : topic.getValue().entrySet()) {
                l.add(answer("topic", topic.getKey(), "queueId", queue.getKey(), "min", queue.getValue().getMinOffsetInQueue(), "max", queue.getValue().getMaxOffsetInQueue()));
            }
        }
        return answer("queues", l);
    }

    private Map<String, Object> lookup(long offset) {
        SelectMappedBufferResult r = store.selectOneMessageByOffset(offset);
        if (r == null) {
            return answer();
        }
        try {
            return answer("phyOffset", r.getStartOffset(), "bytes", ENCODER.encodeToString(bytes(r.getByteBuffer().duplicate())));
        } finally {
            r.release();
        }
    }

    /** The call that decodes: what it answers where no record begins is the original's own affair. */
    private Map<String, Object> look(long offset) {
        MessageExt m = store.lookMessageByOffset(offset);
        return m == null ? answer("found", false) : answer("found", true, "topic", m.getTopic(), "queueId", m.getQueueId(), "phyOffset", m.getCommitLogOffset(), "size", m.getStoreSize());
    }

    private Map<String, Object> logData(long offset) {
        SelectMappedBufferResult r = store.getCommitLogData(offset);
        if (r == null) {
            return answer();
        }
        try {
            return answer("phyOffset", r.getStartOffset(), "bytes", ENCODER.encodeToString(bytes(r.getByteBuffer().duplicate())));
        } finally {
            r.release();
        }
    }

    /** Waits until everything in the log is in the queues; the store has no call to wait with. */
    private Map<String, Object> dispatched(long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1_000_000;
        while (store.dispatchBehindBytes() > 0 && System.nanoTime() < until) {
            Thread.sleep(1);
        }
        return answer("behind", store.dispatchBehindBytes());
    }

    /** One thorough flush of every queue: flush() is the log's alone. */
    private Map<String, Object> flushQueues() {
        for (var topic : store.getConsumeQueueTable().values()) {
            for (var queue : topic.values()) {
                for (int i = 0; i < 1000 && !queue.flush(0); i++) {
                    continue;
                }
            }
        }
        return answer();
    }

    /** Deletes the files of the log that were last changed so many milliseconds ago, but never the last one, and the units below: what the cleaner does, without its timer. */
    private Map<String, Object> deleteExpired(long olderThan) throws Exception {
        int n = 0;
        for (int more; (more = store.getCommitLog().deleteExpiredFile(olderThan, 0, 0, olderThan == 0)) > 0; ) {
            n += more; // at most ten at a time
        }
        long min = store.getMinPhyOffset();
        for (var topic : store.getConsumeQueueTable().values()) {
            for (var queue : topic.values()) {
                queue.deleteExpiredFile(min);
            }
        }
        return answer("segments", n, "min", min);
    }
}
