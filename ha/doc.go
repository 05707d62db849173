// Package ha copies a commit log from a master to slaves, byte for byte, and says what slaves hold.
//
// A Master serves slaves from a Source, a Slave feeds a Target; the store is both. What travels is the log's raw bytes in frames that ignore
// record boundaries but never cross a segment's end; what comes back is the slave's log end: position, acknowledgement and heartbeat in one.
//
// # Two protocols
//
// The classic one (Master.Serve, RocketMQ 4.9.8, spec/ha-protocol.md A) is what an original master or slave speaks: no greeting, no
// authentication, whatever 8 bytes arrive are an offset. ListenClassic binds it to loopback unless it is told otherwise.
//
// The extended one (Master.ServeExtended, extended.go) is for two of ours, on a listener of its own: mutual TLS and a shared token, one
// handshake in which a slave whose log is not the master's is found out and told the way out, then the same frames, each with a
// checksum, compressed with zstd if both agree.
//
// # Where this differs from the original on the classic port
//
//   - A position or acknowledgement that cannot be true (negative, beyond the master's end or beyond what was sent, below its first
//     byte) closes the connection with an event and never counts. The original believes it, or sends heartbeats for ever.
//   - A slave reports at once after it connected, not 5 s later.
//   - A slave notices a silent master after 20 s, and an offset mismatch is a typed error, an event and a back-off, not a hot loop.
//   - Requests that wait for acknowledgements are served when theirs arrives, not one behind the other.
//   - Only connected slaves decide whether a slave is near enough for a put to wait for it.
//   - A first report counts as an acknowledgement only once its slave has taken bytes that follow, or when there are none: a slave whose log is not the master's would acknowledge what waits at that moment. (A slave that comes back
//     in the midst of puts acknowledges those under way with its next report, a round trip later.)
//   - A slave that was ahead of the master's log is not served later either, when the log has grown past its end: it holds other bytes there.
//     A slave that first connects then cannot be told from one that follows: only the extended protocol compares bytes. (The store, as a
//     slave, refuses what is not the record of the place where its own log ends.)
//   - Where puts wait for several slaves, one that connects anew counts once, though its dead connection is not found out yet.
//
// # A slave that does not begin at the log's beginning
//
// Queue offsets travel inside records. A slave that gets its first bytes from behind the log's beginning (the last segment, or a log whose first segments have expired) would not know the queues of which no message was left,
// and as a master number them from 0, where consumers hold higher offsets.
//
// By the extended protocol the master tells it where these queues go on (MasterOptions.Queues, extqueues.go), before it gets a byte, and again whenever it connects. A queue that goes on in the midst of a file takes the room of
// that file's beginning, as on the master.
//
// The classic protocol has no word for it, the original's slaves do the same, and a master of the first version of the extended one says nothing either: the slave then gives the Warning ErrQueuesUnknown. It becomes safe to promote when it is seeded with a copy of the
// master's consumequeue directory beside the log, or once each queue has had a message since.
//
// # Time
//
// All waiting is by timers and deadlines of package time and of net.Conn, so testing/synctest with in-memory connections drives everything in fake time.
package ha
