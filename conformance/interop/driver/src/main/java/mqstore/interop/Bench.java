package mqstore.interop;

import com.alibaba.fastjson.JSONObject;
import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.store.*;

/** Loops inside the process, so that what is measured is the store and not the pipe. */
final class Bench {
    private static final byte[] HEX = "0123456789ABCDEF".getBytes(StandardCharsets.ISO_8859_1);

    private final DefaultMessageStore store;

    Bench(DefaultMessageStore store) {
        this.store = store;
    }

    Map<String, Object> run(JSONObject q) throws Exception {
        int producers = q.getIntValue("producers");
        int body = q.getIntValue("bodySize");
        long nanos = q.getLongValue("ms") * 1_000_000;
        String kind = q.getString("kind");
        AtomicLong done = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        AtomicLong sum = new AtomicLong();
        long cpu = cpuNanos();
        long began = System.nanoTime();
        Thread[] threads = new Thread[producers];
        for (int i = 0; i < producers; i++) {
            int id = i;
            threads[i] = new Thread(() -> {
                try {
                    if (kind.equals("put")) {
                        done.addAndGet(put(id, body, began + nanos, failed));
                    } else {
                        done.addAndGet(get(id, began + nanos, kind.equals("getCopy"), sum));
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                    failed.incrementAndGet();
                }
            });
            threads[i].start();
        }
        for (Thread t : threads) {
            t.join();
        }
        long took = System.nanoTime() - began;
        Map<String, Object> a = usage();
        a.put("messages", done.get());
        a.put("failed", failed.get());
        a.put("nanos", took);
        a.put("cpuNanos", cpuNanos() - cpu);
        return a;
    }

    private long put(int id, int size, long until, AtomicLong failed) {
        byte[] body = new byte[size];
        new Random(id).nextBytes(body);
        InetSocketAddress host = new InetSocketAddress("127.0.0.1", 10911);
        byte[] properties = "UNIQ_KEY\u00017F00000100000000................\u0002TAGS\u0001TagA".getBytes(StandardCharsets.ISO_8859_1);
        long n = 0;
        for (; System.nanoTime() < until; n++) {
            MessageExtBrokerInner m = new MessageExtBrokerInner();
            m.setTopic("bench");
            m.setQueueId(id);
            m.setBornTimestamp(1);
            m.setBornHost(host);
            m.setStoreHost(host);
            m.setBody(body);
            long key = (long) id << 48 | n;
            for (int i = 0; i < 16; i++) { // a key of its own for each message
                properties[40 - i] = HEX[(int) (key >>> 4 * i) & 15];
            }
            m.setPropertiesString(new String(properties, StandardCharsets.ISO_8859_1));
            if (store.putMessage(m).getPutMessageStatus() != PutMessageStatus.PUT_OK) {
                failed.incrementAndGet();
            }
        }
        return n;
    }

    private long get(int id, long until, boolean copy, AtomicLong sum) throws Exception {
        byte[] to = new byte[4 << 20];
        long n = 0;
        long offset = 0;
        while (System.nanoTime() < until) {
            GetMessageResult r = store.getMessage("interop", "bench", id, offset, 32, null);
            if (r.getStatus() != GetMessageStatus.FOUND) {
                if (n == 0) {
                    throw new IllegalStateException("nothing in queue " + id + ": " + r.getStatus());
                }
                offset = r.getMinOffset();
                r.release();
                continue;
            }
            for (ByteBuffer b : r.getMessageBufferList()) {
                if (copy) {
                    int size = b.remaining();
                    b.duplicate().get(to, 0, size);
                    sum.addAndGet(to[size - 1]);
                }
            }
            n += r.getMessageCount();
            offset = r.getNextBeginOffset();
            r.release();
        }
        return n;
    }

    private static long cpuNanos() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /** CPU time of the process so far, and what the kernel says of its memory. */
    static Map<String, Object> usage() throws IOException {
        Map<String, Object> a = Driver.answer("cpuTotalNanos", cpuNanos());
        Path status = Path.of("/proc/self/status");
        if (Files.exists(status)) {
            for (String line : Files.readAllLines(status)) {
                if (line.startsWith("RssAnon:") || line.startsWith("VmHWM:")) {
                    String[] w = line.split("\\s+");
                    a.put(w[0].substring(0, w[0].length() - 1), Long.parseLong(w[1]) * 1024);
                }
            }
        }
        return a;
    }
}
