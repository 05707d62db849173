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
// One goroutine per sequence works ahead of the writer: it makes the next file (Ahead) and writes blocks (Prewrite); the writer itself lays zeros ahead of its stores (Lay). What they should do was measured on ext4, Linux 6.18, virtual disk,
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
// # Appends without synchronous flush
//
// They cost what the kernel's page faults cost. A page of an allocated file is read, as zeros, before it is written to, and the kernel's read-ahead (8 MiB on the machine measured) makes larger and larger folios of that,
// up to 2 MiB. Each first store into a page of it is a fault that asks the file system for the page's block within a transaction; and where a virtual machine has given its free memory back (free page reporting of a
// balloon, in pieces of 2 MiB), the largest folios are made of memory that its host has to find again, a page at a time. A page that was written by a call of a moderate size is in the page cache in a folio of that size,
// dirty, its block known: a store into it costs a short fault. CPU µs a page of 4 KiB, laid or not and stored to by records of 1,200 bytes, which alone are 0.4, in turns, medians of 16 and 10 rounds, on the busy machine
// (go test -bench PagesMadeReady -benchtime 10x ./commitlog/mappedfile):
//
//	                                          same memory again    memory not used before
//	faulted in by the stores                        2.6                    3.8
//	MADV_POPULATE_WRITE first, 1 MiB                2.9                    3.9
//	  and MADV_HUGEPAGE, 4 MiB                      1.9                    8.3
//	zeros laid, by calls of 4 KiB                   9.0                    9.7
//	  16 KiB                                        3.7                    4.0
//	  64 KiB                                        2.4                    2.5
//	  256 KiB                                       1.8                    2.0
//	    and then populated                          1.9                    2.2
//	  1 MiB                                         1.7                    1.7
//	  2 MiB                                         1.6                    5.8
//	records written by calls, not stored: each      9.7                   11.1
//	  64 KiB of them at a time                      1.8                    1.7
//
// Hence: Lay. The writer writes zeros, 256 KiB at a time, when it comes to pages that it has not laid (lay.go): no other goroutine, no fence, and what it stores next is warm in its processor's cache. Laid by another
// goroutine, in the same pieces or in larger ones up to 32 MiB ahead, messages a second were fewer: 0.98 and 1.30 times those of faulting in, where the writer's own pieces of 256 KiB gave 1.47 and those of 1 MiB 1.13.
// Records must not be collected and written by larger calls: a put that was answered survives the end of the process.
//
// Beside the way before (populated by another goroutine, up to a second of the writer ahead), whole processes in turns, 5 pairs each of 0.5 to 1 GiB, the median of the pairs' ratios; on the busy machine, so judge by CPU
// (the same figures of one of them: MQSTORE_INTEROP_SPEED=1 MQSTORE_INTEROP_SPEED_ONLY='put async' go test -run TestSpeedBeside -timeout 2h -v ./conformance/interop):
//
//	                                 messages a second    CPU a message
//	store, 128 B, 1 producer                1.27               0.82
//	store, 128 B, 4 producers               1.19               0.80
//	store, 1 KiB, 1 producer                1.31               0.68
//	store, 1 KiB, 4 producers               1.26               0.76      14 pairs, from 0.83 to 2.13, and from 0.59 to 1.08
//	store, 1 KiB, 64 producers              1.09               0.84
//	store, 4 KiB, 4 producers               1.89               0.53
//	log alone, 128 B, 1 producer            1.27               0.72
//	log alone, 1 KiB, 1 producer            1.10               0.54
//	log alone, 1 KiB, 4 producers           1.60               0.72
//
// What is written to the device, with a flush every 500 ms: 1.02 bytes for each byte of the log, before 1.05 to 1.07. A flush writes whole folios: of 256 KiB now, of up to 2 MiB before. So a store that is given 100 messages
// a second of 1 KiB writes 9 MiB in ten seconds, for 1.1 MiB of log, where it wrote 45 to 58. A writer that stops has laid the rest of 256 KiB; after a crash that is zeros, as the rest of the file is.
// On tmpfs, which makes no large folios of calls, laying costs: 4.4 to 4.9 µs a message of 1 KiB, before 2.8 to 3.4.
package mappedfile
