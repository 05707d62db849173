// Package repair works on the files of a store that is not open: it reads them as they lie, damage included.
//
// Looking goes through [io/fs] and never through a mapping, so that a short or damaged file is a finding and not a
// signal, and needs no lock: what a running process writes meanwhile is seen or not, record by record. Everything
// streams: memory does not grow with the store.
//
// [Files] lists a directory; [LogReader] reads the log's records in order, around what is damaged; [UnitReader] reads a
// queue's units with their extensions. All of it reads the formats of RocketMQ 4.x and 5.x and of this engine.
//
// Mending: [Recover], [Rebuild] and [Truncate] change a store in place, [Salvage] copies what is whole of a damaged one
// into a new one. They take the store's lock (of a source Salvage takes none), keep what they cut in quarantine/, tell
// with DryRun what a run would do, and can be run again when they were killed.
package repair

// MemoryLimit is what a process that only runs functions of this package gives [runtime/debug.SetMemoryLimit], in bytes,
// to stay below 200 MiB whatever the store: what they hold is less, what they leave to be collected may be as much again.
const MemoryLimit = 128 << 20
