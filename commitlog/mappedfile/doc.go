// Package mappedfile keeps fixed-size files mapped into memory, and sequences of them: the commit log's segments, the files of consume queues.
//
// A file is named by the offset of its first byte in the stream that the sequence holds, 20 decimal digits, and has its full length from the start
// (RocketMQ 4.9.8, spec/commitlog-format.md 1.2). Bytes come into it by stores into the mapping: Reserve, copy, Publish. So the things that can fail are elsewhere:
//
//   - Blocks. A store into a block that does not exist yet is a fatal signal when the disk is full, so a range is allocated before Reserve hands it out: whole files when they are made, what is left of
//     a file that was found sparse, windows of queue files. A full disk is ErrDiskFull there, everything stays as it was, and the call can be repeated when space was freed. (A file system that copies on write
//     may still refuse an overwrite of an allocated block: put stores on ext4 or XFS. One that cannot allocate gets zeros written instead.)
//   - Length. It is checked when a file is mapped. Whoever shortens a mapped file from outside makes the next touch of the lost part a fatal signal (SIGBUS): the store's lock file keeps other stores
//     away, not other programs.
//   - Durability. Stores are durable after Flush, files and their removal when the call returns that made or removed them (queue files, which can be made again, after Flush and a sync of their directories: a sync for each would cost milliseconds a queue). After a failed sync the kernel may have dropped the pages, so that failure is final.
//
// All of that passes through FS, so that package faultfs can fail it, or cut the power, at any point.
//
// # Making syncs small and appends fast
//
// One goroutine per sequence works ahead of the writer: it makes the next file (Ahead), faults pages in (Populate), writes blocks (Prewrite). What it should do was measured on ext4, Linux 6.18, virtual disk,
// 2 cores busy with other work (go test -bench 'MemcpyLimit|Sync' -benchtime 1000x ./commitlog/mappedfile), medians of 1000 in the second table:
//
//	1 KiB copied into a mapping that is        MB/s
//	  sparse                                    307
//	  allocated                                 459
//	  written ahead (Prewrite)                 1341
//	  populated                                1923   populating itself: 1238
//
//	sync of a store of                        256 B           4 KiB      bytes written by the device
//	  allocated                                4096            8192      the first sync of a block commits the journal too
//	  written ahead by populate and sync       4096            4096      the same in steps of 64 KiB, 1, 8 and 64 MiB
//	  zeroed by 4 KiB writes                   4096            4096
//	  zeroed by 1 MiB writes                1048576         1048576      large folios: the kernel writes a whole one back
//	  … and dropped from the page cache        4096            4096
//	  scanned by 4 KiB preads                 36864          528384      read-ahead builds large folios too
//	  scanned through the mapping              4096            4096      also under AdviceSequential
//
// Hence: page faults build single-page folios, calls build large ones. Prewrite populates and syncs, 1 MiB at a time, 16 MiB ahead; an existing file first leaves the page cache, since whoever copied
// or read it may have left large folios; nothing here reads a mapped file by read calls, and recovery scans through the mapping. Medians of the time of a sync were 160 to 300 µs whatever the preparation, and 500 to 700 µs with
// large folios, on a machine too busy to tell more.
//
// A group commit (64 records of 1,130 bytes, written ahead; go test -bench SyncOfAGroup -benchtime 1000x), records and sync together, on the same busy machine: by stores 1033 µs, by a call for each record 1001, by one call
// for all 465. So the commit log with synchronous flush collects what is appended and writes it with one call before the sync (Staged). What is appended is then in this process only, until a flush, a reader, or WriteOut
// brings it into the mapping.
//
// Without synchronous flush, populated pages are dirty pages: what waits longer than the kernel's write-back (5 to 30 s) is written once as zeros and once as data. So the window follows the writer, about
// one second of it, up to Populate; the whole next file is never populated.
//
// What a fault costs depends on the machine's memory more than on the disk. A page of an allocated file is read, as zeros, before it is written to, and the kernel's read-ahead (8 MiB on the machine measured) makes larger and
// larger folios of that. Where a virtual machine has given its free memory back (free page reporting of a balloon), these are made of memory that its host has to find again, a page at a time; small ones mostly
// lie in memory that was not given back. CPU µs a page, made writable in steps of 1 MiB, 2 GiB each, on the busy machine:
//
//	faulted in                                 memory held 0.7–1.0, given back 10–13
//	MADV_WILLNEED first (single pages)         2.2–2.9
//	zeros written first, by calls of 4 KiB     3.5–5.0
//	  16 KiB                                   2.1–3.0
//	  64 KiB                                   1.0–1.4
//	  256 KiB                                  0.9–1.4
//
// A record of 1.2 KiB takes 0.3 of a page: 0.3 µs of its append, or 4.
package mappedfile
