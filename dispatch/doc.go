// Package dispatch is the reput loop: it reads the log from an offset and carries each record to its sinks (consume queues, index, arrival listeners), in log order, at least once.
//
// How far it reads is the log's to say: VisibleEnd is the log's end, or what is flushed, or what slaves hold, so that no sink sees what a crash can take back.
// A record that is not whole below that end is waited for. Damage, and a sink that refuses a record, stop the loop before that record with an error: nothing is ever skipped.
//
// # Differences from RocketMQ 4.9.8
//
//   - Bytes that are no record stop the loop where they are, and the caller hears of it; the original on a broker with id 0 skips the rest of that segment, whose messages no consumer ever sees.
//   - Whether more of a record can come is for the log to say; the original decides by the broker's id, not by its role.
//   - A record is dispatched when VisibleEnd has reached its end; the original dispatches what is not on disk yet (5.3.3 does not).
package dispatch
