// Package checkpoint keeps the small files in a store's root that say in which state its big ones are:
//
//	checkpoint        how far each file family is known to be durable (RocketMQ's page, spec/checkpoint-abort-recovery.md 4.1)
//	abort             present while a store is open: found at open, the last exit was not clean
//	lock              held by the process that has the store open; never deleted
//	mqstore.summary   our own: what the log and each queue held at the last checkpoint, so that a lost queue is noticed and recovery is bounded
//
// Every write is durable and whole: after a crash a file has its old bytes or its new ones. Every error of a write is returned; the caller keeps it,
// since a checkpoint that cannot be written bounds no recovery. A page or summary must be written after what it speaks of was synced:
// log, then queues, then the files here.
//
// Nothing here is the only copy of anything. A file that is damaged is a *mappedfile.CorruptError, and the caller may go on as if it were missing:
// recovery then scans more.
//
// # Differences from RocketMQ 4.9.8
//
//   - Page, abort file and lock are the original's. The page is replaced whole and durably, and checked when it is read; the original writes into its mapping and takes any number.
//   - mqstore.summary is our own, and the original takes no notice of it. It is believed only if the log still holds the record that it names, so that a directory which the original wrote to meanwhile is not taken for the old one.
package checkpoint
