// Package consumequeue holds, per topic and queue, 20-byte units that point into the commit log: what a consumer reads to
// find the n-th message of its queue. The files are RocketMQ's own (spec/consumequeue-format.md):
//
//	consumequeue/<topic>/<queueId>/00000000000000000000   units 0 .. U-1      (U = file size / 20, 300,000 by default)
//	                               00000000000006000000   units U .. 2U-1
//
//	| physical offset, 8 | record size, 4 | tags code, 8 |      big endian; never across two files
//
// A [Set] is all queues of a store, a [Queue] one of them. A queue holds the units of the queue offsets [MinOffset,
// MaxOffset). Everything in it can be derived from the log; so damage here is never fatal: a queue that cannot be trusted
// is emptied ([Set.ResetQueue]) and dispatched again.
//
// # Concurrency
//
// Any number of goroutines read, without locks that a writer holds. Dispatch, retention (CorrectMin, Expire, Remove),
// recovery (TruncateTo, ResetQueue) and flushing may run in goroutines of their own: each queue serialises those that change it.
// Dispatch itself is called by one goroutine, because units come in log order. TruncateTo zeroes bytes that a view may
// still show; it belongs to recovery, before anything reads. A view holds its file: a queue deleted under a reader stays
// readable through the views that exist, and answers ErrNoUnit or mappedfile.ErrClosed to new ones.
//
// Lock order: Set.create, Queue.writer, Queue.flushing, then the leaves Set.mu and Set.dirty. Set.flushing is taken
// before Queue.flushing and never together with the others.
//
// # Durability
//
// A unit is durable once a Flush that began after its Dispatch has returned nil, and so are its file and the directories
// that lead to it. To make them costs no sync: ten thousand new queues do not hold up the others. A flush that failed once fails for ever
// for that queue (mappedfile.Sequence), and so does a truncation: the caller must not let its checkpoint pass it. TruncateTo, Remove and ResetQueue
// are durable when they return. Files are made at full length without blocks; blocks are allocated in small windows ahead
// of the units, so that ten thousand short queues stay small and a full disk is ErrDiskFull from Dispatch, with nothing
// written, which can be called again when there is room.
//
// # After a crash
//
// Open accepts the longest prefix whose units are valid and point at records that follow one another in the log; a hole
// ends the queue. Of files and directories made since the last Flush, a power loss may have taken any: one that is missing
// between others, or of length 0, ends the queue too, and one that is missing before them makes it begin too late, which
// only the log can tell: such a queue is emptied and dispatched again. A length that is neither 0 nor a file's does not
// come from a crash, since files get theirs in one step: it is refused, as is a gap after a clean exit. What lies behind is zeroed before the next unit is written, or by TruncateTo. Inside files other than
// the last one only the first and the last unit are looked at; a lost page or a torn unit there is mended when the record
// is dispatched again, as it must be after a crash, from the last durable checkpoint on.
//
// # Differences from RocketMQ 4.9.8
//
//   - A unit beyond the end is refused (*GapError) instead of being appended at the wrong index.
//   - Physical offsets must rise: units left over from before a crash are not accepted; what is truncated is zeroed.
//   - The first unit of a file is checked like every other one.
//   - An expired queue has min = max = its next offset (the 5.3.3 rule) instead of keeping its old minimum.
//   - Filler units never count as messages: the minimum lies behind them whatever the log's minimum is.
//   - A record with queue offset 0 that comes second is a duplicate; the original appends it at the end.
//   - Reads do not create queues. A queue directory is a canonical non-negative decimal number; others are reported
//     (Set.Strays). The original takes every name that Integer.parseInt does.
//   - OffsetByTime(Nearest) chooses the file by message time, not by modification time; an unreadable record is an error
//     instead of offset 0; a queue without a readable record answers its bounds.
package consumequeue
