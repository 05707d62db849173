// Package repair works on the files of a store that is not open: it reads them as they lie, damage included.
//
// Looking goes through [io/fs] and never through a mapping, so that a short or damaged file is a finding and not a
// signal, and needs no lock: what a running process writes meanwhile is seen or not, record by record. Everything
// streams: memory does not grow with the store.
//
// [Files] lists a directory; [LogReader] reads the log's records in order, around what is damaged; [UnitReader] reads a
// queue's units with their extensions. All of it reads the formats of RocketMQ 4.x and 5.x and of this engine.
package repair
