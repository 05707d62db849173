// Package indexfile reads and writes RocketMQ's own message index: hash files in <store>/index. spec/index.md 3.1 to 3.4.
//
// A file, all big-endian, for S slots and N entries (maxHashSlotNum, maxIndexNum):
//
//	header (40)                  begin and end time, begin and end physical offset, used slots, entry counter
//	slot (4) × S                 number of the newest entry of the slot's chain; 0 = none
//	entry (20) × N               key hash, physical offset, seconds since the file's begin, the entry before in the chain
//
// Entry 0 is never used. The text of a key is not in the file: a hit is a hash, perhaps of another key, and its time is rounded down to seconds.
// Files are written in turn; a file's name is the local time of its creation, yyyyMMddHHmmssSSS.
package indexfile
