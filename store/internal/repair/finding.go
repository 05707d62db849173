package repair

// Kind is what is wrong, as a word that scripts rely on.
type Kind string

// The kinds of findings.
const (
	TornTail         Kind = "torn-tail"          // the log ends in bytes that are no whole record
	BadCRC           Kind = "bad-crc"            // a record whose bytes changed; whole records follow
	BadMagic         Kind = "bad-magic"          // no record where one must begin; records follow
	BadSize          Kind = "bad-size"           // a record or blank whose lengths do not add up; records follow
	WrongPhyOffset   Kind = "wrong-phy-offset"   // a record that says it lies elsewhere
	WrongQueueOffset Kind = "wrong-queue-offset" // a record whose number in its queue is repeated, or out of order
	MissingSegment   Kind = "missing-segment"    // a file of the log or of a queue that must be there is not
	WrongLength      Kind = "wrong-length"       // a file that is longer or shorter than its kind
	StrayFile        Kind = "stray-file"         // something that does not belong where it is
	MissingQueue     Kind = "missing-queue"      // the log has records of a queue that has no files
	MissingUnit      Kind = "missing-unit"       // a record that its queue has no unit of
	DanglingUnit     Kind = "dangling-unit"      // a unit that points at nothing
	WrongUnit        Kind = "wrong-unit"         // a unit that points at another record than its own, or into the middle of one
	WrongTagsCode    Kind = "wrong-tags-code"    // a unit whose tags code is not its record's
	BadExtAddress    Kind = "bad-ext-address"    // a unit whose extension is not there, or another's
	BadCheckpoint    Kind = "bad-checkpoint"     // the checkpoint, or the summary beside it, cannot be read
	CheckpointAhead  Kind = "checkpoint-ahead"   // the checkpoint knows of data that is not there
	UncleanExit      Kind = "unclean-exit"       // the abort file is there, and no process has the store open
	IndexBehind      Kind = "index-behind"       // the index ends before the log
	IndexDangling    Kind = "index-dangling"     // an index entry without its record
	IndexMissing     Kind = "index-missing"      // a record without its index entry, or no index at all
	Unreadable       Kind = "unreadable"         // the file system refuses to show it
)

// Kinds are all of them.
var Kinds = []Kind{TornTail, BadCRC, BadMagic, BadSize, WrongPhyOffset, WrongQueueOffset, MissingSegment, WrongLength, StrayFile, MissingQueue, MissingUnit,
	DanglingUnit, WrongUnit, WrongTagsCode, BadExtAddress, BadCheckpoint, CheckpointAhead, UncleanExit, IndexBehind, IndexDangling, IndexMissing, Unreadable}

// The verbs that mend findings.
const (
	MendRecover = "recover" // in place: cuts the torn tail, completes queues and index, resets the checkpoint, sets strays aside
	MendSalvage = "salvage" // into a new store: damage in the middle of the log
	MendRebuild = "rebuild" // in place: queues or index anew from the log
	MendByHand  = ""        // no verb: the detail says what to do
)

// Finding is one thing that is wrong with a store. Its JSON is that of mqstore verify. A number that does not apply is -1.
type Finding struct {
	Kind        Kind   `json:"kind"`
	File        string `json:"file"` // below the store's root, with slashes; of a commit log elsewhere too: commitlog/...
	PhyOffset   int64  `json:"phyOffset"`
	Topic       string `json:"topic"`
	QueueID     int32  `json:"queueId"`
	QueueOffset int64  `json:"queueOffset"` // the first, of several in a row
	Detail      string `json:"detail"`      // what it is and what it means, for the one who has to decide
	Mend        string `json:"mend"`        // the verb that mends it, "" if none does
}

// inFile is a finding about a file as a whole.
func inFile(k Kind, file, mend, detail string) Finding {
	return Finding{Kind: k, File: file, PhyOffset: -1, QueueID: -1, QueueOffset: -1, Detail: detail, Mend: mend}
}

// at is a finding about a place of the log.
func at(k Kind, file string, phyOffset int64, mend, detail string) Finding {
	f := inFile(k, file, mend, detail)
	f.PhyOffset = phyOffset
	return f
}

// Checked is what Check looked at.
type Checked struct {
	Records  int64 // of the log, the damaged ones that can still be told apart included
	Units    int64
	Keys     int64 // index entries
	Bytes    int64 // of the log
	Findings int64
}
