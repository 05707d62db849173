package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/mqstore/mqstore/store"
)

func init() { register(diskLaws...) }

// slowDisk gives a flush that is held up little time.
var slowDisk = Config{SyncFlush: true, SyncFlushTimeout: 30 * time.Millisecond}

// stalled puts messages, holds the disk up, and returns the topic, the queue offset of the next message and what ends it.
func (t *T) stalled() (topic string, next int64, resume func()) {
	s := need[DiskStaller](t)
	topic = t.Topic("")
	next = t.onDisk("the status before", topic, "before").QueueOffset + 1
	t.Visible(topic, 0, next)
	return topic, next, s.StallDisk()
}

// onDisk puts a message, and another one if the disk was slower than slowDisk allows: a busy machine's may be now and then.
func (t *T) onDisk(what, topic, body string) store.PutResult {
	ctx, cancel := context.WithTimeout(t.ctx, t.patience)
	defer cancel()
	r := t.Put(t.Message(topic, 0, body))
	for r.Status == store.FlushDiskTimeout && ctx.Err() == nil {
		r = t.Put(t.Message(topic, 0, body))
	}
	Equal(t, what, r.Status, store.PutOK)
	return r
}

var diskLaws = []Law{
	{
		ID:     "disk-001",
		Says:   "A put that is not on disk in time is answered FLUSH_DISK_TIMEOUT; it is stored, and becomes visible when the disk gets on.",
		Why:    "the producer must know that a power failure may still take it back, and must not think that it was refused",
		Source: "commitlog-format.md 1.10; dispatch-and-read.md 5.5",
		Tests:  []string{"FlushDiskWatcherTest.testTimeout"},
		Config: slowDisk,
		Own:    true,
		Check: func(t *T) {
			topic, next, resume := t.stalled()
			defer resume()
			r := t.Put(t.Message(topic, 0, "late"))
			Equal(t, "the status", r.Status, store.FlushDiskTimeout)
			Equal(t, "the queue offset", r.QueueOffset, next)
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), end(r))
			resume()
			t.Visible(topic, 0, next+1)
			Equal(t, "the message", string(t.Read(topic, 0, next, 1)[0].Body), "late")
			t.onDisk("the status of the next", topic, "next")
		},
	},
	{
		ID:     "disk-002",
		Says:   "Futures that are not on disk in time answer FLUSH_DISK_TIMEOUT, all of them.",
		Why:    "a producer with many puts under way must get them back",
		Source: "commitlog-format.md 1.10",
		Tests:  []string{"FlushDiskWatcherTest.testTimeout"},
		Config: slowDisk,
		Own:    true,
		Check: func(t *T) {
			p := need[store.AsyncPutter](t)
			topic, next, resume := t.stalled()
			defer resume()
			var futures []*store.Future
			for range 20 {
				futures = append(futures, p.PutAsync(t.Message(topic, 0, "late")))
			}
			for i, f := range futures {
				if r, err := t.wait(f); err != nil || r.Status != store.FlushDiskTimeout || r.QueueOffset != next+int64(i) {
					t.Errorf("future %d: %v, queue offset %d, %v; want %v", i, r.Status, r.QueueOffset, err, store.FlushDiskTimeout)
				}
			}
			resume()
			t.Visible(topic, 0, next+20)
		},
	},
	{
		ID:     "disk-003",
		Says:   "Where PutOK means on disk, consumers see nothing that is not.",
		Why:    "what a crash takes back is consumed, and its offset given to another message that then nobody consumes",
		Source: "architecture 3, Visibility; reports 12",
		Tests:  []string{"ReputMessageServiceTest.testReputEndOffset_whenSyncFlush"},
		Config: slowDisk,
		Own:    true,
		Check: func(t *T) {
			topic, next, resume := t.stalled()
			defer resume()
			t.Put(t.Message(topic, 0, "late"))
			Equal(t, "the queue's end", t.Store().MaxOffset(topic, 0), next)
			Equal(t, "the status of a get", t.Get(store.GetRequest{Topic: topic, Offset: next}).Status, store.OffsetOverflowOne)
			resume()
			t.Visible(topic, 0, next+1)
		},
	},
	{
		ID:     "disk-004",
		Says:   "A context that is done ends the wait for the disk, not the put: its error comes with the message's offsets.",
		Why:    "the producer has gone, but the message has not",
		Source: "package store, Putter",
		Config: Config{SyncFlush: true, SyncFlushTimeout: time.Hour},
		Own:    true,
		Check: func(t *T) {
			topic, next, resume := t.stalled()
			defer resume()
			ctx, cancel := context.WithCancel(t.ctx)
			defer cancel()
			before := t.Store().MaxPhyOffset()
			t.Go(func() {
				t.until(t.ctx, func() bool { return t.Store().MaxPhyOffset() > before })
				cancel()
			})
			r, err := t.Store().Put(ctx, t.Message(topic, 0, "late"))
			if !errors.Is(err, context.Canceled) || r.QueueOffset != next || r.Size == 0 {
				t.Errorf("put: queue offset %d, %d bytes, %v; want offset %d and %v", r.QueueOffset, r.Size, err, next, context.Canceled)
			}
			resume()
			t.Visible(topic, 0, next+1)
			Equal(t, "the message", string(t.Read(topic, 0, next, 1)[0].Body), "late")
		},
	},
	{
		ID:     "disk-005",
		Says:   "A put with WAIT=false is answered PUT_OK without waiting for the disk, and is no more visible for that.",
		Why:    "the producer said that it does not care; consumers did not",
		Source: "commitlog-format.md 1.10; package store, What an answer means",
		Config: slowDisk,
		Own:    true,
		Check: func(t *T) {
			topic, next, resume := t.stalled()
			defer resume()
			Equal(t, "the status", t.Put(t.Message(topic, 0, "late", "WAIT", "false")).Status, store.PutOK)
			Equal(t, "the queue's end", t.Store().MaxOffset(topic, 0), next)
			resume()
			t.onDisk("the status of the next", topic, "next")
			t.Visible(topic, 0, next+2)
		},
	},
	{
		ID:     "disk-006",
		Says:   "A batch that is not on disk in time is answered FLUSH_DISK_TIMEOUT.",
		Why:    "it is one put, with one answer",
		Source: "commitlog-format.md 1.10",
		Config: slowDisk,
		Own:    true,
		Check: func(t *T) {
			need[store.BatchPutter](t)
			topic, next, resume := t.stalled()
			defer resume()
			Equal(t, "the status", t.PutBatch(t.Message(topic, 0, ""), items(3)).Status, store.FlushDiskTimeout)
			resume()
			t.Visible(topic, 0, next+3)
		},
	},
	{
		ID:     "disk-007",
		Says:   "Without room for another segment puts are refused with CREATE_MAPEDFILE_FAILED, and what is stored can be read.",
		Why:    "a full disk must not take the messages along that are there",
		Source: "commitlog-format.md 1.10 step 6; defects 18; reports 36",
		Config: smallSegments,
		Own:    true,
		Check: func(t *T) {
			topic, n, free := t.filled()
			defer free()
			_, err := t.Store().Put(t.ctx, t.Sized(topic, 0, 5000))
			t.Refused("a put without room", err, store.ErrDiskFull, "CREATE_MAPEDFILE_FAILED")
			Equal(t, "the first message", len(t.Read(topic, 0, 0, 1)[0].Body) > 0, true)
			if n < 1 {
				t.Errorf("nothing was stored before the disk was full")
			}
		},
	},
	{
		ID:     "disk-008",
		Says:   "Once there is room again puts are stored at once, with the next offset.",
		Why:    "the original stays unwritable until it is restarted",
		Source: "defects 15; reports 42",
		Config: smallSegments,
		Own:    true,
		Check: func(t *T) {
			topic, n, free := t.filled()
			defer free()
			free()
			Equal(t, "the queue offset of the first put", t.Put(t.Sized(topic, 0, 5000)).QueueOffset, n)
			t.Visible(topic, 0, n+1)
			for i, m := range t.Read(topic, 0, 0, int(n)+1) {
				Equal(t, "a message's queue offset", m.QueueOffset, int64(i))
				Equal(t, "a message's size", m.Size, 5000)
			}
		},
	},
	{
		ID:     "disk-009",
		Says:   "If a flush fails the put that waits for it is not acknowledged, and all later ones are refused with SERVICE_NOT_AVAILABLE.",
		Why:    "the kernel may have dropped the pages: a flush that succeeds later proves nothing",
		Source: "architecture 3, One failed flush is final; reports 29",
		Config: Config{SyncFlush: true},
		Own:    true,
		Check: func(t *T) {
			topic := t.Topic("")
			t.Put(t.Message(topic, 0, "durable"))
			need[SyncFailer](t).FailSync()
			if r, err := t.Store().Put(t.ctx, t.Message(topic, 0, "lost")); !errors.Is(err, store.ErrFlushFailed) {
				t.Errorf("put: %v, %v; want %v", r.Status, err, store.ErrFlushFailed)
			}
			for range 2 {
				t.Refuse("a later put", t.Message(topic, 0, "later"), store.ErrServiceNotAvailable, "SERVICE_NOT_AVAILABLE")
			}
			if err := t.Close(); !errors.Is(err, store.ErrFlushFailed) {
				t.Errorf("close: %v; want %v", err, store.ErrFlushFailed)
			}
		},
	},
	{
		ID:     "disk-010",
		Says:   "After a failed flush what is on disk can be read, and what is not is not shown.",
		Why:    "consumers go on while the broker is looked after",
		Source: "architecture 3, One failed flush is final",
		Config: Config{SyncFlush: true},
		Own:    true,
		Check: func(t *T) {
			topic := t.Topic("")
			t.Put(t.Message(topic, 0, "durable"))
			t.Visible(topic, 0, 1)
			need[SyncFailer](t).FailSync()
			_, _ = t.Store().Put(t.ctx, t.Message(topic, 0, "lost"))
			Equal(t, "the message", string(t.Read(topic, 0, 0, 1)[0].Body), "durable")
			Equal(t, "the queue's end", t.Store().MaxOffset(topic, 0), 1)
			_ = t.Close()
		},
	},
}

// filled stores n messages of 5,000 bytes, until the disk is full, and returns their number and what makes room again.
func (t *T) filled() (topic string, n int64, free func()) {
	s := need[DiskFiller](t)
	topic = t.Topic("")
	n = t.Put(t.Sized(topic, 0, 5000)).QueueOffset + 1
	t.Visible(topic, 0, 1)
	free = s.FillDisk()
	for range 20 { // files may have been made ahead
		_, err := t.Store().Put(t.ctx, t.Sized(topic, 0, 5000))
		if err != nil {
			t.Refused("a put without room", err, store.ErrDiskFull, "CREATE_MAPEDFILE_FAILED")
			return topic, n, free
		}
		n++
	}
	free()
	t.Fatalf("%d segments were made on a full disk", n)
	return topic, n, free
}
