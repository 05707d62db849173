// Package metasync keeps what RocketMQ's brokers know beside their messages the same on master and slave: topics, consumer offsets, delay offsets, subscription groups;
// and registers a broker with name servers (RocketMQ 4.9.8; spec/ha-protocol.md 6.16, 6.17, 6.19).
//
//	name servers ◄── register ── Registrar ── haServerAddr, masterAddr ──► the slave's HA client, Syncer.SetMaster
//	                                                        │
//	master's Source ◄── 21, 43, 45, 201 ── Syncer ──► Dir: config/topics.json, consumerOffset.json, delayOffset.json, subscriptionGroup.json
//
// A slave runs a [Syncer] over the [Dir] of its store. A master serves a [Source], its own tables or a Dir, with [NewServer] on the two ports of [ListenPair].
// Both run a [Registrar]. Each side works with the original at the other end.
//
// # The files
//
// A Dir replaces a file whole and durably: after a power loss it is the old one or the new one. The one before stays as .bak. A file that is missing, empty or damaged is
// answered from its .bak, and DirOptions.Damaged says so; when a damaged file is replaced, its bytes are kept as .damaged. What is in fields that this package does not know
// (RocketMQ 5 has more) is kept and written again.
//
// # Differences from the original
//
//   - Files are synced and renamed, their directory synced; the original's plain overwrite loses the file with the power (apache/rocketmq#3401, #6096, #10518).
//   - A damaged file does not become the .bak, and a file whose bytes would not change is not written.
//   - A file of which no whole version is left is a *[DamagedError] from the Load functions; an original broker does not start, or starts with an empty table. A Syncer replaces it by the master's.
//   - The master's delay offsets are looked at before they are written; the original writes any text.
//   - A Registrar hands on the first name server's answer as soon as it is there; the original waits until all answered or 6 s passed.
//   - Nothing here signs requests: a master with ACL on refuses them, and whoever reaches the port of a server of ours may read. Bind it accordingly.
package metasync
