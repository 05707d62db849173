// Package remoting speaks RocketMQ's remoting protocol: the frames that brokers, name servers and clients exchange, a small client, and a small server.
//
// A frame (RocketMQ 4.9.8; all numbers big-endian):
//
//	0        4        5          8           8+H        4+L
//	+--------+--------+----------+-----------+----------+
//	| L      | type   | H        | header    | body     |
//	+--------+--------+----------+-----------+----------+
//
// L counts everything after itself; the whole frame is at most 16 MiB unless an option says otherwise. Type 0 is a JSON header, type 1 a binary one.
// [Command] is one decoded frame; [ReadCommand] and [Command.AppendFrame] are the codec. Lengths are checked before they are believed, and memory grows only as bytes arrive.
//
// As the original, reading is tolerant: unknown header fields are ignored, extFields and remark may be absent or null, numbers may be quoted, a language that nobody knows is [Other].
// [Unmarshal] reads the bodies that fastjson 1.x writes, which are JSON but for the unquoted integer keys of maps.
//
// # Differences from the original
//
//   - [Client] drops a connection on which a whole call's time passed in silence, so that a host that vanished is dialled anew by the next call.
//   - [Server] limits connections, requests at a time, frame sizes and the time for a frame to arrive or to leave; the original limits frame sizes and idle time.
//   - An answer that would be larger than a frame may be is answered with code 1 and a remark; the original sends it and the other end drops the connection.
//   - Request signing (ACL) and TLS are not spoken here; both take a [net.Conn] or [net.Listener] of any kind.
package remoting
