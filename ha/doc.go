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
//
// # Time
//
// All waiting is by timers and deadlines of package time and of net.Conn, so testing/synctest with in-memory connections drives everything in fake time.
package ha
