// Package store is a message store compatible with Apache RocketMQ's: the MessageStore interface, and DefaultMessageStore, which keeps the original's files byte for byte
// (main line 4.9.8; records of 5.x are read, and written on request).
//
//	s, err := store.Open("/var/lib/broker/store", store.Options{})
//	r, err := s.Put(ctx, &record.Message{Topic: "orders", Body: body})
//	err = s.WaitForMessages(ctx, "orders", 0, r.QueueOffset) // visible to consumers a moment after Put
//	g, err := s.Get(ctx, store.GetRequest{Topic: "orders", Offset: r.QueueOffset})
//	defer g.Release()
//
// # How a message travels
//
// Put appends it to the commit log, one sequence of files for all topics, where it has a physical offset: a byte position. A dispatcher reads the log and gives each message of a queue its unit in that queue,
// where it has a queue offset: an ordinal. Get reads units and answers with views into the log. Everything but the log is derived from it, and built again from it when it is lost.
//
// # What an answer means
//
//	mode                     PutOK means                what a crash of the process loses   what a power failure loses
//	AsyncFlush (default)     in the page cache          nothing                             up to FlushEvery (500 ms), and what the disk was behind
//	SyncFlush                on disk                    nothing                             nothing
//	SyncFlush, WAIT=false    in the page cache          nothing                             what was not flushed yet; it is not shown to consumers before
//	FlushDiskTimeout         in the log, disk too slow  perhaps this message                perhaps this message
//	SyncMaster               as the flush mode says, and received by a slave (on its disk, if it has HA.ReportFlushed): the loss of the whole machine loses nothing
//	FlushSlaveTimeout        as the flush mode says; no slave said in time that it has it. It is in the log and may get there yet
//	SlaveNotAvailable        as the flush mode says; no slave was near enough to be waited for
//
// WAIT=false is the message property of that name. Stats().FlushedPhyOffset says how far the log is on disk, WaitFlushed waits for it, Flush asks for it.
// A message becomes visible to Get once it is dispatched, a moment after Put returns (WaitForMessages waits for it); in SyncFlush mode not before it is flushed, so that no consumer sees what a crash can take back
// (Options.ReadUncommitted shows it at once, as the original does). Of a SyncMaster it is visible when a slave has it, which is what its put waits for; without a slave to wait for, at once.
//
// A put that returns an error was not stored, or must not be relied on: the sentinels of this package say why, StatusName gives the broker's name. No queue offset is used up by a refusal.
// A full disk refuses puts with ErrDiskFull and takes them again once there is room. A failed sync is final: the kernel may have dropped the pages, so puts are refused with ErrFlushFailed until the store is opened again; reads go on.
//
// # What a broker finds here, and what it must do itself
//
//	transactions        stored, and kept out of the queues until committed; checking back with producers is the broker's (example: Put, transaction)
//	batches             PutBatch; SplitBatch in package record takes a client's batch apart
//	compressed bodies   kept as they come; record's CompressBody and DecompressBody speak zlib, zstd and LZ4
//	filters             TagFilter, or a Filter of the broker's. Extension units (bitmaps) of a store of RocketMQ are read and handed to it; new ones are not written
//	keys                Query, by KEYS and UNIQ_KEY
//	retention           DeleteExpired, called by the broker when it likes; nothing is deleted by itself
//	delayed messages    refused (ErrUnsupported): nothing here would deliver them. Those in a store of RocketMQ are read like any others
//	light queues (LMQ)  with Options.MultiDispatch: stored messages have their units in the queues that INNER_MULTI_DISPATCH names; puts of new ones are refused. Without it the property is a property
//	replication         Options.Role and Options.HA: see Replication, below. Who is master is the broker's decision (SetRole)
//	consumer offsets    the broker's; package ha/metasync keeps them the same on master and slave
//	DLedger, RocksDB queues, batch queues and epochs of RocketMQ 5   such a directory is refused (ErrUnsupported), and can be looked at
//
// # Opening
//
// Open takes the directory's lock, which is the original's, so that a broker and this package exclude each other. It finds the end of the log, keeps what it cuts in quarantine/, completes the queues, and says in Stats().Recovery what it did.
// Damage of data that was durable is an error that names the place (*CorruptError). OpenReadOnly needs no lock and writes nothing: it looks at a live store, or at one of RocketMQ.
// ReadProperties turns a broker's .properties file into Options.
//
// # Replication
//
// A store with HA.ListenAddress serves its log to slaves, byte for byte; one with the role Slave follows HA.MasterAddress and builds the same queues and index from it. Either side may be an original of 4.9.8: the classic protocol.
// It has no authentication, so that a listener binds loopback unless it is told otherwise. Between two of this package HA.Extended adds TLS, a token, checksums, and a handshake that finds a slave whose log is not its master's.
// Stats().HA has connections and lags, Events tell when they come and go. A slave that cannot follow since its log is another one says so (ErrDiverged: an event, Stats) with the way out, and never appends at a wrong place.
// SetRole makes a slave the master, or a master a slave, while the store is open.
//
// # Concurrency
//
// All methods may be called by any goroutine. Views (GetResult, QueryResult, CommitLogData) must be released; their bytes stay valid until then, even when their file is deleted or the store is closed meanwhile. A message belongs to Put until Put returns.
//
// # Differences from RocketMQ 4.9.8
//
//   - A message that does not fit into a segment is refused before anything is written; the original answers PUT_OK and loses it.
//   - A topic of at most 127 characters but more than 127 bytes is refused (or written as v2); the original writes a corrupt record. A topic that cannot name a directory, and a negative queue id, are refused.
//   - Properties that hold a zero byte are refused: they could not be told from a lost sector after a crash.
//   - Batch items whose properties exceed 32,767 bytes together with the batch's are refused; the original writes a corrupt record.
//   - In SyncFlush mode consumers see only what is flushed.
//   - Queues that lost units are noticed at Open and rebuilt, after a clean exit too; offsets are never used twice.
//   - Damage in the middle of the log refuses to open, unless OnDamage is DamageCut. It is found where opening reads: after a clean exit the end of the log (at most its last three segments), and elsewhere by who reads there
//     (Lookup and Scan check each record's CRC, Get does with Options.VerifyReads).
//   - A queue whose messages have all expired is empty with min == max; the original answers MESSAGE_WAS_REMOVING for ever.
//   - Unknown queues are not created by reads. Statuses are the same.
//   - Lookup inside a record is ErrNotARecord; the original throws or returns garbage.
//   - A failed sync is an error of that put and all later ones; the original goes on.
//   - EarliestStoreTime of a queue is that of its first message held.
//   - OffsetByTime finds a queue's file by message times; the original goes by the files' modification times.
//   - Of a SyncMaster consumers see only what a slave has, while there is one to wait for.
//   - A put waits for disk and slaves side by side, and each with its own deadline; in the original one that is stuck delays those behind it. How far replication differs is said in package ha.
//   - An arrival is reported on a slave, too, as in 5.3.
//   - Keys are in a database of our own, index_pebble/, built from the log: exact where the original compares hashes, and without the bounds of its files. Its index/ is asked by OpenReadOnly where ours is missing, and never written;
//     a RocketMQ that takes the directory back finds by key only what it indexed itself.
//   - Delayed messages (DELAY) are refused with ErrUnsupported, and so are messages for several queues if Options.MultiDispatch is set. Stored ones are read.
package store
