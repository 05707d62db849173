// Package index finds records of the commit log by topic and key: the unique key of a message (UNIQ_KEY) and each of its KEYS.
//
// It is kept in a Pebble database of its own beside the log, holds nothing that the log does not, and can be thrown away at any time: Open rebuilds what is missing, damaged, or of another log.
// Records come in through Dispatch, in log order, from a dispatcher of the index's own.
//
// # What is where
//
// New entries go to a table in memory (the tail), where queries see them at once. When the tail is full, or FlushEvery old, it is sorted, written as one sorted table and handed to Pebble as a whole (ingested):
// Pebble's write-ahead log and memtables are never used. The same table carries how far the index is, so that entries and progress reach the disk in one step, or not at all;
// what a crash takes is dispatched again. (Single inserts into Pebble cost 4 µs of processor time a key where a sorted table costs 0.6.)
//
// Keys of the database, all big-endian:
//
//	bucket (8)                              → head of the bucket: bounds, counts, and its last record (see head)
//	bucket (8) hash (6) ^offset (4)         → store time, as a zigzag varint of the difference in ms to the bucket's first record
//
// A bucket is BucketSize bytes of the log: bucket = phyOffset / BucketSize. It goes as a whole, in constant time, when the log's segments have expired (Expire). The hash is the upper 48 bits of xxHash64 of topic, 0x00, key;
// offsets within the bucket are inverted so that a seek to a bucket and hash meets the newest record first, and bucket and hash are what Pebble's bloom filters are about: asking a bucket that lacks a key costs no read of its entries.
//
// # Exactness
//
// A hash is not a key. Each hit is compared with its record (Options.Record): it is returned only if there is a record at that offset, of that topic, with that key. So two keys of one hash never answer for each other, and an entry whose record is gone or was
// replaced by another never answers at all.
//
// # Failures
//
// A failed write ends the life of an Index, never that of the process: from then on Dispatch and Flush return ErrFailed with the cause, queries go on with what there is, and nothing more reaches the disk, as if power had been lost at that write. The owner
// closes it and opens it again when it likes; the new one continues from what is durable. (Pebble itself treats a write to its manifest that fails as fatal; see guardFS.)
//
// # Differences from RocketMQ 4.9.8
//
//   - Keys are exact; the original answers with every message whose key has the same 32-bit hash. A query may therefore find less.
//   - Store times are exact, in milliseconds; the original's are rounded down to seconds of a file.
//   - What was cut from the log never answers; the original's entries stay, and may point into newer records.
//   - A failed write leaves puts alone; the original then refuses puts.
//   - There is no bound on how many keys are kept but the log's own; the original's files hold 20,000,000 each.
package index
