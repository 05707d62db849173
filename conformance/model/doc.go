// Package model is a message store built the obvious way: one slice of records, one slice of units a queue, a linear search wherever a question allows it. It is the oracle that an engine is compared with,
// and it is written from the specification (spec/dispatch-and-read.md 5.3 to 5.5, spec/commitlog-format.md 1.10 to 1.13, spec/consumequeue-format.md 2.4 to 2.8, spec/index.md 3.5 and 3.7), not from an engine.
//
// It takes the engine's own store.Options, so that both are set up alike, and heeds those that decide an answer: sizes, limits, role, transfer bounds, clock. Everything is visible, indexed and as durable as it will be when a call returns;
// there are no goroutines, so Sinks, Arrival and Events are not called.
//
// # Where it departs from RocketMQ 4.9.8
//
// As store does (see its documentation), and where the specification says that the original must not be copied:
//
//   - A message that does not fit into a segment, and a topic or properties that would corrupt a record, are refused.
//   - Store times never go back, whatever the clock does.
//   - Queries are exact: no hits of another key with the same hash, each message once, times to the millisecond.
//   - OffsetByTime chooses a queue file by its messages' times, not by modification times.
//   - A queue whose messages have all expired is empty at its next offset.
//   - Delayed messages, and multi-dispatch if it is switched on, are refused by Put with ErrUnsupported; such records are understood when they come in by AppendToCommitLog.
package model
