package store_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// A master whose puts wait for a slave, and the slave that takes over when it is gone.
func ExampleDefaultMessageStore_SetRole() {
	dir, err := os.MkdirTemp("", "mqstore")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	master, err := store.Open(filepath.Join(dir, "a"), store.Options{
		SegmentSize: 1 << 20, Role: store.SyncMaster,
		HA:     store.HAOptions{ListenAddress: "127.0.0.1:0"}, // a real one has a port: 10912
		Events: store.Events{SlaveConnected: func(string) { fmt.Println("a slave follows") }},
	})
	if err != nil {
		log.Fatal(err)
	}
	follows := make(chan string, 1)
	slave, err := store.Open(filepath.Join(dir, "b"), store.Options{
		SegmentSize: 1 << 20, Role: store.Slave,
		HA:     store.HAOptions{MasterAddress: master.Stats().HA.ListenAddress},
		Events: store.Events{MasterConnected: func(master string) { follows <- master }},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer slave.Close()
	<-follows

	host, err := record.ParseHost("127.0.0.1:10911")
	if err != nil {
		log.Fatal(err)
	}
	order := func(s *store.DefaultMessageStore, body string) store.PutResult {
		r, err := s.Put(ctx, &record.Message{Topic: "orders", Body: []byte(body), BornHost: host, StoreHost: host})
		if err != nil {
			log.Fatal(store.StatusName(err), err)
		}
		return r
	}
	for r := order(master, "one coffee"); r.Status != store.PutOK; { // the master may not have accepted the connection yet
		r = order(master, "one coffee")
	}

	// The master, and its disk, are gone.
	master.Close()
	os.RemoveAll(filepath.Join(dir, "a"))
	if err := slave.SetRole(ctx, store.AsyncMaster); err != nil {
		log.Fatal(err)
	}
	last := slave.MaxOffset("orders", 0) - 1
	g, err := slave.Get(ctx, store.GetRequest{Topic: "orders", Offset: last})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Release()
	messages, err := g.Messages()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v: %s\n", slave.Role(), messages[0].Body)
	fmt.Println("goes on where that ended:", order(slave, "two teas").QueueOffset == last+1)
	// Output:
	// a slave follows
	// ASYNC_MASTER: one coffee
	// goes on where that ended: true
}
