// Package dispatch is the reput loop: it reads the log from an offset and carries each record to its sinks (consume queues, index, arrival listeners), in log order, at least once.
//
// How far it reads is the log's to say: VisibleEnd is the log's end, or what is flushed, or what slaves hold, so that no sink sees what a crash can take back.
// A record that is not whole below that end is waited for. Damage, and a sink that refuses a record, stop the loop before that record with an error: nothing is ever skipped.
package dispatch
