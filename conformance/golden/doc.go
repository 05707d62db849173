// Package golden holds store directories exactly as Apache RocketMQ 4.9.8 left them on disk, with manifests of what was put and what its own API answered.
//
// The bytes are the reference of every test of compatibility: they are never changed. Tests of any package may use it:
//
//	dir := golden.Extract(t, "basic")        // dir/store/commitlog, dir/store/consumequeue …, writable
//	m := golden.Load(t, "basic")             // what was put, and every answer
//	for _, r := range m.Records { … }
//
// | name             | what it shows                                                                                                       |
// |------------------|---------------------------------------------------------------------------------------------------------------------|
// | basic            | 310 messages, 3 topics and one of 127 characters, tags, keys, unique keys, 5 segments with end-of-file blanks       |
// | ipv6             | IPv6 born and store hosts, mixed with IPv4                                                                          |
// | batch            | batches, also across a segment's end                                                                                |
// | transaction      | prepared, commit and rollback records                                                                               |
// | compressed       | bodies under the compressed flag (LZ4, Zstd, zlib)                                                                  |
// | delay            | delayed messages, some delivered; config/delayOffset.json                                                           |
// | lmq              | multi-dispatch into light queues                                                                                    |
// | consumequeueext  | extension units with bitmaps                                                                                        |
// | deleted-head     | the first segments deleted by retention: minimum offsets above zero                                                 |
// | crash-torn       | killed, then the last record's body damaged; store-before, store-after                                              |
// | crash-lostqueue  | killed, consume queues and index deleted; store-before, store-after                                                 |
// | clean-lostqueue  | clean exit, one topic's queues deleted (RocketMQ does not rebuild them all); store-before, store-after              |
// | clean-torntail   | clean exit, last record damaged; store-before, store-after                                                          |
// | ha-capture       | a sync master and a slave on a wire: directories master and slave, the wire's bytes (LoadCapture), probes (LoadProbes) |
//
// Its answers about offsets by time depend on file modification times, which it used to pick a queue file; Extract restores the times of the copy in the archive, not those of the run.
package golden
