package commitlog_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/record"
)

// A log is opened and recovered in one step, appended to, waited for, and read with a cursor.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "commitlog")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	l, tail, err := commitlog.Open(commitlog.Options{Dir: filepath.Join(dir, "commitlog"), SegmentSize: 1 << 20}, commitlog.Recovery{FlushedTo: -1})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	fmt.Println("records found:", tail.Records)

	host := record.HostFrom(netip.MustParseAddrPort("127.0.0.1:10911"))
	var queue commitlog.Counter
	for _, body := range []string{"first", "second"} {
		res, err := l.Append(&record.Message{Topic: "Greetings", BornHost: host, StoreHost: host, Body: []byte(body)}, &queue)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("queue offset", res.QueueOffset, "at physical offset", res.PhyOffset)
	}
	if err := l.WaitFlushed(context.Background(), l.MaxPhyOffset()); err != nil {
		log.Fatal(err)
	}

	c := l.NewCursor(l.MinPhyOffset())
	defer c.Close()
	var m record.Meta
	for {
		err := c.Next(&m, l.FlushedPhyOffset())
		if errors.Is(err, commitlog.ErrNotYet) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		msg, v, err := l.Message(m.PhyOffset)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", msg.Topic, msg.Body)
		v.Release()
	}
	// Output:
	// records found: 0
	// queue offset 0 at physical offset 0
	// queue offset 1 at physical offset 105
	// Greetings: first
	// Greetings: second
}
