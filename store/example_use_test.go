package store_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// temporary opens a store in a directory that remove deletes.
func temporary(o store.Options) (s *store.DefaultMessageStore, dir string, remove func()) {
	dir, err := os.MkdirTemp("", "mqstore")
	if err != nil {
		log.Fatal(err)
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = 1 << 20
	}
	o.SyncFlushTimeout = time.Hour // the disk may be as slow as it likes
	if s, err = store.Open(dir, o); err != nil {
		log.Fatal(err)
	}
	return s, dir, func() {
		s.Close()
		os.RemoveAll(dir)
	}
}

// A first look: put a message, wait until consumers can see it, get it. (This is what README.md shows.)
func Example() {
	dir, err := os.MkdirTemp("", "mqstore")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	s, err := store.Open(dir, store.Options{FlushMode: store.SyncFlush, SegmentSize: 16 << 20})
	if err != nil {
		log.Fatal(err) // says what, where, and what to do
	}
	defer s.Close()

	put, err := s.Put(ctx, &record.Message{
		Topic:      "orders",
		QueueID:    0,
		Body:       []byte("two teas"),
		Properties: record.NewProperties(record.PropertyTags, "drinks", record.PropertyKeys, "order-17"),
	})
	if err != nil {
		log.Fatal(err) // not stored
	}
	fmt.Println(put.Status, put.QueueOffset) // how safe it is, and its place in the queue

	// A message can be read once it is dispatched to its queue, a moment after Put.
	if err := s.WaitForMessages(ctx, "orders", 0, put.QueueOffset); err != nil {
		log.Fatal(err)
	}
	got, err := s.Get(ctx, store.GetRequest{Topic: "orders", QueueID: 0, Offset: put.QueueOffset})
	if err != nil {
		log.Fatal(err) // damage or I/O; "nothing there" is got.Status
	}
	defer got.Release() // the messages are views into the log
	messages, err := got.Messages()
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range messages {
		fmt.Printf("%s %s\n", m.Tags(), m.Body)
	}
	// Output:
	// PUT_OK 0
	// drinks two teas
}

// Many puts in flight share one sync of the disk: append them all, then wait for each.
func ExampleDefaultMessageStore_PutAsync() {
	s, _, remove := temporary(store.Options{FlushMode: store.SyncFlush})
	defer remove()

	ctx := context.Background()
	var futures []*store.Future
	for i := range 100 {
		futures = append(futures, s.PutAsync(&record.Message{Topic: "ticks", Body: fmt.Append(nil, i)}))
	}
	for _, f := range futures {
		r, err := f.Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if r.Status != store.PutOK { // FLUSH_DISK_TIMEOUT: stored, but not known to be on disk
			log.Fatal(r.Status)
		}
	}
	fmt.Println(s.Stats().Puts, "on disk")
	// Output:
	// 100 on disk
}

// All messages of a batch are stored, or none; each has its own place and id.
func ExampleDefaultMessageStore_PutBatch() {
	s, _, remove := temporary(store.Options{})
	defer remove()

	host, err := record.ParseHost("127.0.0.1:10911")
	if err != nil {
		log.Fatal(err)
	}
	r, err := s.PutBatch(context.Background(), &record.Message{Topic: "orders", BornHost: host, StoreHost: host}, []record.BatchItem{
		{Body: []byte("one coffee")},
		{Body: []byte("two teas"), Properties: record.NewProperties(record.PropertyKeys, "order-18")},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Status, r.Messages, "messages from queue offset", r.QueueOffset)
	for _, id := range strings.Split(r.MessageID(), ",") {
		m, err := s.LookupID(id)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", id, m.Body)
	}
	// Output:
	// PUT_OK 2 messages from queue offset 0
	// 7F00000100002A9F0000000000000000: one coffee
	// 7F00000100002A9F000000000000006B: two teas
}

// A prepared message is stored but in no queue. Its commit is a message of its own, which names where the prepared one lies, and is what consumers get.
func ExampleDefaultMessageStore_Put_transaction() {
	s, _, remove := temporary(store.Options{})
	defer remove()

	ctx := context.Background()
	var flag record.SysFlag
	prepared, err := s.Put(ctx, &record.Message{Topic: "payments", Body: []byte("100 to Ann"), SysFlag: flag.WithTransaction(record.TransactionPrepared)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("prepared, the queue ends at", s.MaxOffset("payments", 0))

	// The local transaction succeeded: put the message again, as committed; had it failed, as record.TransactionRollback.
	half, err := s.Lookup(prepared.PhyOffset)
	if err != nil {
		log.Fatal(err)
	}
	committed, err := s.Put(ctx, &record.Message{
		Topic: half.Topic, QueueID: half.QueueID, Body: half.Body, Properties: half.Properties,
		SysFlag: flag.WithTransaction(record.TransactionCommit), PreparedTransactionOffset: prepared.PhyOffset,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.WaitForMessages(ctx, "payments", 0, committed.QueueOffset); err != nil {
		log.Fatal(err)
	}
	fmt.Println("committed at queue offset", committed.QueueOffset, "- the queue ends at", s.MaxOffset("payments", 0))
	// Output:
	// prepared, the queue ends at 0
	// committed at queue offset 0 - the queue ends at 1
}

// A consumer's loop: get from where it stands, go on at NextBeginOffset whatever the status, wait when there is nothing.
func ExampleDefaultMessageStore_WaitForMessages() {
	s, _, remove := temporary(store.Options{})
	defer remove()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for i := range 5 {
			if _, err := s.Put(ctx, &record.Message{Topic: "numbers", Body: fmt.Append(nil, i), Properties: record.NewProperties(record.PropertyTags, []string{"even", "odd"}[i%2])}); err != nil {
				log.Fatal(err)
			}
		}
	}()
	for offset := int64(0); offset < 5; {
		if err := s.WaitForMessages(ctx, "numbers", 0, offset); err != nil { // ErrClosed, or ctx's
			log.Fatal(err)
		}
		g, err := s.Get(ctx, store.GetRequest{Topic: "numbers", Offset: offset, Filter: store.TagFilter("even")})
		if err != nil {
			log.Fatal(err)
		}
		messages, err := g.Messages()
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range messages {
			if m.Tags() == "even" { // the filter compares hashes
				fmt.Println(m.QueueOffset, string(m.Body))
			}
		}
		offset = g.NextBeginOffset
		g.Release()
	}
	// Output:
	// 0 0
	// 2 2
	// 4 4
}

// Messages are found by each of their KEYS and by their UNIQ_KEY, oldest first.
func ExampleDefaultMessageStore_Query() {
	s, _, remove := temporary(store.Options{})
	defer remove()

	ctx := context.Background()
	for i, keys := range []string{"order-17 table-3", "order-18 table-4", "order-19 table-3"} {
		if _, err := s.Put(ctx, &record.Message{Topic: "orders", Body: fmt.Append(nil, "bill ", i), Properties: record.NewProperties(record.PropertyKeys, keys)}); err != nil {
			log.Fatal(err)
		}
	}
	// The index follows the queues; who cannot wait looks at QueryResult.Complete.
	if err := s.WaitIndexed(ctx, s.MaxPhyOffset()); err != nil {
		log.Fatal(err)
	}
	q, err := s.Query(ctx, store.QueryRequest{Topic: "orders", Key: "table-3", Begin: time.Now().Add(-time.Hour)})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Release()
	messages, err := q.Messages()
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range messages {
		fmt.Printf("%s: %s\n", m.Body, m.Keys())
	}
	// Output:
	// bill 0: [order-17 table-3]
	// bill 2: [order-19 table-3]
}

// Where to begin reading for messages since some time.
func ExampleDefaultMessageStore_OffsetByTime() {
	noon := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	clock := noon
	s, _, remove := temporary(store.Options{Now: func() time.Time { return clock }, NoBackground: true}) // so that this example has a clock of its own
	defer remove()

	for range 3 { // at 12:00, 12:10, 12:20
		if _, err := s.Put(context.Background(), &record.Message{Topic: "T"}); err != nil {
			log.Fatal(err)
		}
		clock = clock.Add(10 * time.Minute)
	}
	if _, err := s.DispatchStep(10); err != nil { // what a store with background goroutines does itself
		log.Fatal(err)
	}
	for _, t := range []time.Time{noon.Add(-time.Hour), noon.Add(12 * time.Minute), noon.Add(time.Hour)} {
		fmt.Print(t.Format("15:04"))
		for _, rule := range []store.TimeRule{store.Nearest, store.Lower, store.Upper} {
			queueOffset, err := s.OffsetByTime("T", 0, t, rule)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(" ", queueOffset)
		}
		fmt.Println()
	}
	// Output:
	// 11:00 0 0 0
	// 12:12 1 2 1
	// 13:00 2 3 2
}

// Retention is the caller's clockwork: the store deletes when it is told to, whole segments, and never what is not on disk.
func ExampleDefaultMessageStore_DeleteExpired() {
	s, _, remove := temporary(store.Options{SegmentSize: 4096})
	defer remove()

	ctx := context.Background()
	for range 10 {
		if _, err := s.Put(ctx, &record.Message{Topic: "T", Body: make([]byte, 1000)}); err != nil {
			log.Fatal(err)
		}
	}
	if err := s.WaitForMessages(ctx, "T", 0, 9); err != nil {
		log.Fatal(err)
	}
	if _, err := s.Flush(); err != nil {
		log.Fatal(err)
	}
	report, err := s.DeleteExpired(store.ExpireOptions{OlderThan: 72 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(report.Segments), "deleted: the queue begins at", s.MinOffset("T", 0))

	report, err = s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 2}) // whatever their age
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(report.Segments), "deleted: the queue begins at", s.MinOffset("T", 0))
	// Output:
	// 0 deleted: the queue begins at 0
	// 2 deleted: the queue begins at 6
}

// Looking needs no lock and writes nothing: the store may be open in another process, or be RocketMQ's.
func ExampleOpenReadOnly() {
	s, dir, remove := temporary(store.Options{})
	defer remove()
	if _, err := s.Put(context.Background(), &record.Message{Topic: "T", Body: []byte("x")}); err != nil {
		log.Fatal(err)
	}
	if err := s.WaitForMessages(context.Background(), "T", 0, 0); err != nil {
		log.Fatal(err)
	}

	_, err := store.Open(dir, store.Options{})
	fmt.Println("a second Open is refused:", errors.Is(err, store.ErrLocked))

	look, err := store.OpenReadOnly(dir, store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer look.Close()
	for _, q := range look.Queues() {
		fmt.Printf("%s/%d holds [%d, %d)\n", q.Topic, q.QueueID, q.MinOffset, q.MaxOffset)
	}
	fmt.Println("warnings:", look.Warnings())
	// Output:
	// a second Open is refused: true
	// T/0 holds [0, 1)
	// warnings: []
}

// A broker's configuration as options. What has no effect here is named, with the reason.
func ExampleReadProperties() {
	options, broker, ignored, err := store.ReadProperties(strings.NewReader(`
brokerName=broker-a
storePathRootDir=/data/store
flushDiskType=SYNC_FLUSH
brokerRole=ASYNC_MASTER
transientStorePoolEnable=true
`))
	if err != nil {
		log.Fatal(err) // the line, what is wrong with it, and what is allowed
	}
	fmt.Println(broker.Name, broker.StorePathRootDir, options.FlushMode, options.Role)
	for _, k := range ignored {
		fmt.Println(k.Key, "has no effect")
	}
	// Output:
	// broker-a /data/store SYNC_FLUSH ASYNC_MASTER
	// transientStorePoolEnable has no effect
}
