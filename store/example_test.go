package store_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "mqstore")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	s, err := store.Open(dir, store.Options{SegmentSize: 1 << 20, FlushMode: store.SyncFlush})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	ctx := context.Background()
	host, err := record.ParseHost("127.0.0.1:10911")
	if err != nil {
		log.Fatal(err)
	}
	for _, order := range []string{"one coffee", "two teas"} {
		r, err := s.Put(ctx, &record.Message{
			Topic: "orders", QueueID: 0, Body: []byte(order), BornHost: host, StoreHost: host,
			Properties: record.NewProperties(record.PropertyTags, "drinks"),
		})
		if err != nil {
			log.Fatal(store.StatusName(err), err)
		}
		fmt.Println(r.Status, "at queue offset", r.QueueOffset)
	}

	// A message can be read once it is dispatched, a moment later.
	if err := s.WaitForMessages(ctx, "orders", 0, 1); err != nil {
		log.Fatal(err)
	}
	g, err := s.Get(ctx, store.GetRequest{Topic: "orders", QueueID: 0, Offset: 0, Filter: store.TagFilter("drinks || cakes")})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Release()
	messages, err := g.Messages()
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range messages {
		fmt.Printf("%d: %s\n", m.QueueOffset, m.Body)
	}
	fmt.Println(g.Status, "next", g.NextBeginOffset)
	// Output:
	// PUT_OK at queue offset 0
	// PUT_OK at queue offset 1
	// 0: one coffee
	// 1: two teas
	// FOUND next 2
}

func ExampleDefaultMessageStore_Scan() {
	dir, err := os.MkdirTemp("", "mqstore")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(dir, store.Options{SegmentSize: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	ctx := context.Background()
	host, _ := record.ParseHost("127.0.0.1:10911")
	for i := range 3 {
		m := &record.Message{Topic: "numbers", Body: fmt.Append(nil, i), BornHost: host, StoreHost: host}
		if _, err := s.Put(ctx, m); err != nil {
			log.Fatal(err)
		}
	}
	if err := s.WaitForMessages(ctx, "numbers", 0, 2); err != nil {
		log.Fatal(err)
	}
	for m, err := range s.Scan(ctx, "numbers", 0, 1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.QueueOffset, string(m.Body)) // m is a copy: keep it as long as you like
	}
	// Output:
	// 1 1
	// 2 2
}

func ExampleStatusName() {
	dir, err := os.MkdirTemp("", "mqstore")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(dir, store.Options{SegmentSize: 1 << 20, Role: store.Slave})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	_, err = s.Put(context.Background(), &record.Message{Topic: "orders"})
	fmt.Println(store.StatusName(err), errors.Is(err, store.ErrServiceNotAvailable))
	fmt.Println(err)
	// Output:
	// SERVICE_NOT_AVAILABLE true
	// store: service not available: this store is a slave: put to its master
}
