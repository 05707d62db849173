// Package commitlog holds every message in arrival order: fixed-size segment files, mapped into memory, that together are one
// stream of bytes. A record is found by its physical offset, its byte position in that stream.
//
// The bytes are RocketMQ's (4.9.8; spec/commitlog-format.md): a record never crosses a segment's end, a segment that is left ends
// in a blank record of at least 8 bytes, and each record carries the physical offset at which it lies.
//
// # Durability
//
// Append returns when the record is in memory. It survives the process at once (with SyncFlush: after WriteOut, or when somebody
// has read it), and the machine once FlushedPhyOffset has reached its end: wait for that with WaitFlushed (one sync serves all who wait). With AsyncFlush the window of loss is FlushEvery.
// One failed flush, or write of what WriteOut and readers need, is final: the kernel may have dropped the pages, so a later success would prove nothing. The log keeps the error
// (Err), wakes all waiters with it and refuses every further append until it is opened again, which recovers what was durable.
//
// # Recovery
//
// Open recovers: no Log is ever open and unrecovered. It reads records from Recovery.From on, verifies each one (sizes, stored
// offset, CRC) and so finds the log's end. What lies behind the end is judged by one law, see [DamageError]. Bytes that are cut are
// first copied to the quarantine directory, then zeroed, so that they can never come back; all of it is durable when Open returns,
// and done again after a crash it changes nothing.
//
// # Concurrency and lock order
//
// Every method of Log is safe for concurrent use; a Cursor belongs to one goroutine. Locks, in the order in which they are taken:
// flush lock (a flush, TruncateTo, Close), append lock (short: patch, copy, publish; a segment roll, TruncateTo and, with SyncFlush, the write of
// each MiB that no flush came for hold it longer, which LockedFor shows), then the locks of the waiter lists, which are leaves. No caller's code runs under any of them, but
// Options.Now, which must not call back.
//
// # Ownership and visibility
//
// Views are slices of the mapping with a hold on their segment: valid until Release, also after the segment expired or the log
// was closed, and never to be written. A reader may see every byte below MaxPhyOffset; whether it should is for the caller to
// bound (a cursor takes an end), since what is not flushed can be lost with the power.
//
// # Differences from the original
//
//   - A record bigger than a segment is refused (ErrTooBig) before anything is written; the original answers PUT_OK, loses it and
//     blanks two segments.
//   - Topics that do not fit their length field are refused by record; the original writes a corrupt record.
//   - A zero byte in topic or properties is refused (ErrZeroByte): after a crash nothing could tell it from a sector that was never written.
//   - Store times never go backwards within the log, also when the clock does; but a last record that is more than a day ahead of the
//     clock at Open is not believed, since no checksum covers its time.
//   - Segments are allocated when they are created, so a full disk is an error (mappedfile.ErrDiskFull) of one append and not a
//     signal; nothing is used up by it, and appends go on once there is room.
//   - Recovery checks the stored physical offset, reports what it dropped, keeps what it cuts, and refuses to cut damage of durable
//     data; the original stops at the first bad record and deletes the segments behind it. A truncation is durable, cut bytes are
//     zeroed; the original only moves positions in memory.
//   - A missing segment file in the middle is damage; the original logs it.
//   - A slave's bytes are accepted at the write position only.
//   - Retention goes by the store time of a segment's last record, which copies keep; the original goes by modification time.
package commitlog
