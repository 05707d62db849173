package conformance

import (
	"context"
	"io"

	"github.com/mqstore/mqstore/store"
)

// Store is the least that the laws need of a store.
type Store interface {
	store.Putter
	store.Getter
	store.OffsetReader
	io.Closer
}

// Maker makes an empty store with the settings of c. It is called again for each Config, and for each law that needs a store of its own; what it made before may still be open. The stores are closed by who called it.
//
// An error that wraps errors.ErrUnsupported says that this maker cannot make such stores: the laws that need one are skipped. Any other error is a fault of each of these laws.
type Maker func(ctx context.Context, c Config) (Store, error)

// Reopener is a store that can be closed cleanly and opened again. The store is closed whatever Reopen returns.
type Reopener interface {
	Reopen(ctx context.Context) (Store, error)
}

// Crasher is a store whose process can be killed, and which is opened again then. What was not on disk stays as the operating system has it.
type Crasher interface {
	Crash(ctx context.Context) (Store, error)
}

// PowerLoser is a store whose machine can be switched off, and which is opened again then: what was not on disk may be lost.
type PowerLoser interface {
	LosePower(ctx context.Context) (Store, error)
}

// Expirer is a store from whose beginning segments can be deleted: those that end at or below phyOffset, but never the last one. It returns where the log begins afterwards.
type Expirer interface {
	Expire(ctx context.Context, phyOffset int64) (minPhyOffset int64, err error)
}

// Replicator is a master that can be followed. Slave makes an empty store that follows it, and returns once the master counts on it. The slave is closed by the caller, and before the master.
type Replicator interface {
	Slave(ctx context.Context) (Store, error)
}

// Promoter is a slave that can become a master. It stops following.
type Promoter interface {
	Promote(ctx context.Context) error
}

// RawAppender is a slave that takes bytes of its master's log by hand.
type RawAppender interface {
	AppendToCommitLog(phyOffset int64, p []byte) error
}

// LogReader is a store that hands on the bytes of its log: from phyOffset on, at most to that segment's end, and at most max of them (0: no bound). Offset 0 is where the log begins.
type LogReader interface {
	CommitLogData(phyOffset int64, max int) (store.View, error)
}

// MessageWaiter is a store that can be waited for, until the queue holds a message at offset or beyond. Others are asked again and again.
type MessageWaiter interface {
	WaitForMessages(ctx context.Context, topic string, queueID int32, offset int64) error
}

// IndexWaiter is a store that can be waited for, until queries find everything below phyOffset. Others are asked again and again.
type IndexWaiter interface {
	WaitIndexed(ctx context.Context, phyOffset int64) error
}

// Delayer is a store that delivers delayed messages (property DELAY). Others refuse them.
type Delayer interface {
	DelayLevels() string // as RocketMQ configures them: "1s 5s 10s"
}

// MultiDispatcher is a store that, with Config.MultiDispatch, puts messages into the queues that INNER_MULTI_DISPATCH names. Others refuse them.
type MultiDispatcher interface {
	DispatchesMulti()
}

// Phaser is a store that lets something happen between what a law puts and what it then asks: a restart, a crash, a change of master. It returns the store to ask. T.Settle calls it. Makers implement it to run all laws across such an event.
type Phaser interface {
	NextPhase(ctx context.Context) (Store, error)
}

// DiskStaller is a store whose disk can be held up: until resume is called no flush of the log returns. A second call of resume does nothing.
type DiskStaller interface {
	StallDisk() (resume func())
}

// DiskFiller is a store whose disk can be full: until free is called there is no room for another file. A second call of free does nothing.
type DiskFiller interface {
	FillDisk() (free func())
}

// SyncFailer is a store whose disk can fail: the next flush of the log does.
type SyncFailer interface {
	FailSync()
}
