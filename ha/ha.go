package ha

// Source is the log that a Master serves. All methods may be called by many goroutines at the same time.
type Source interface {
	// Read returns a view of at most max bytes of the log from phyOffset on, none of them at or beyond MaxPhyOffset or the end of the segment
	// that phyOffset is in. It is empty, without an error, when phyOffset is the log's end. The bytes stay valid until release is called, once, which
	// can be as late as MasterOptions.WriteTimeout; release is nil if p is empty. An offset that the log does not hold (any more) is an error.
	Read(phyOffset int64, max int) (p []byte, release func(), err error)

	// MinPhyOffset is the first byte held; 0 or less when the log is empty.
	MinPhyOffset() int64

	// MaxPhyOffset is one past the last byte that may be sent.
	MaxPhyOffset() int64

	// Grown returns a channel that is closed once MaxPhyOffset > past, at once if it is.
	Grown(past int64) <-chan struct{}
}

// Target is the log that a Slave feeds. Only the slave appends to it while Slave.Run runs.
type Target interface {
	// AppendToCommitLog appends p at phyOffset, which is MaxPhyOffset, or, if that is 0, wherever the log shall begin. It must not keep p.
	// With an empty p an empty log begins at phyOffset. After an error the slave looks at MaxPhyOffset for what was appended.
	AppendToCommitLog(phyOffset int64, p []byte) error

	// MaxPhyOffset is the log's end; 0 = the log is empty.
	MaxPhyOffset() int64

	// FlushedPhyOffset is how much of it survives the machine.
	FlushedPhyOffset() int64

	// Tail is the last record that begins below MaxPhyOffset, for the extended handshake: its offset, how many of its bytes (from its first on, at most
	// MaxTailSize, none at or beyond MaxPhyOffset) were summed, and their CRC-32C (crc32.Castagnoli). Size 0: nothing to compare.
	Tail() (phyOffset int64, size int, crc uint32)
}

// MaxTailSize is how many bytes Target.Tail may sum.
const MaxTailSize = 4 << 20
