package recovery_test

import (
	"fmt"
	"testing"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// BenchmarkOpen opens a store of 200,000 messages of 1 KiB in 1,000 queues: bytes are those of its log.
func BenchmarkOpen(b *testing.B) {
	const messages, queues = 200_000, 1000
	o := recovery.Options{
		FS: mappedfile.OS(), Root: b.TempDir(),
		CommitLog: commitlog.Options{SegmentSize: 32 << 20, NoBackground: true},
		Queues:    consumequeue.Options{FileSize: 6000, NoBackground: true},
	}
	op, err := recovery.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	counters := make([]commitlog.Counter, queues)
	body := make([]byte, 900)
	for i := range messages {
		m := &record.Message{Topic: fmt.Sprint("topic", i%queues%10), QueueID: int32(i % queues), BornHost: host, StoreHost: host, Body: body}
		if _, err := op.Log.Append(m, &counters[i%queues]); err != nil {
			b.Fatal(err)
		}
	}
	if err := op.Queues.Close(); err != nil {
		b.Fatal(err)
	}
	if err := op.Log.Close(); err != nil {
		b.Fatal(err)
	}
	if op, err = recovery.Open(o); err != nil {
		b.Fatal(err)
	}
	size := op.Report.End
	sum, err := recovery.Summarize(op.Log, op.Queues.Snapshot(), size, true)
	if err != nil {
		b.Fatal(err)
	}
	shutB(b, op)
	for _, clean := range []bool{true, false} {
		for _, summary := range []bool{true, false} {
			b.Run(fmt.Sprintf("clean=%v/summary=%v", clean, summary), func(b *testing.B) {
				o.IgnoreSummary = !summary
				b.SetBytes(size)
				for b.Loop() {
					b.StopTimer()
					err := checkpoint.WriteSummary(o.FS, o.Root, sum)
					if err == nil {
						err = checkpoint.RemoveAbort(o.FS, o.Root)
					}
					if !clean {
						err = checkpoint.CreateAbort(o.FS, o.Root)
					}
					if err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
					op, err := recovery.Open(o)
					if err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					shutB(b, op)
					b.StartTimer()
				}
			})
		}
	}
}

func shutB(b *testing.B, op *recovery.Opened) {
	b.Helper()
	if err := op.Queues.Close(); err != nil {
		b.Fatal(err)
	}
	if err := op.Log.Close(); err != nil {
		b.Fatal(err)
	}
}
