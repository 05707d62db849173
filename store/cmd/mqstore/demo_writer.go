package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// ack is what the killed process said of one message after its put had returned.
type ack struct {
	Topic       string `json:"topic"`
	QueueID     int32  `json:"queueId"`
	QueueOffset int64  `json:"queueOffset"`
	PhyOffset   int64  `json:"phyOffset"`
	BodySum     uint32 `json:"bodySum"`
}

func demoMessage(rng *rand.Rand, topic string, queueID int32) *record.Message {
	body := make([]byte, 100+rng.IntN(900))
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	host := record.HostFrom(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 10911))
	return &record.Message{Topic: topic, QueueID: queueID, BornTimestamp: time.Now().UnixMilli(), BornHost: host, StoreHost: host, Body: body}
}

// demoWriterCmd is the process that demo kills: it puts for ever, and writes a line for each put that has returned.
type demoWriterCmd struct {
	Dir  string `arg:""`
	Pair bool   // say first where it listens, and put when a slave follows
}

// demoHello is the first line of a writing process that is a master.
type demoHello struct {
	Listen string `json:"listen"`
}

// pair waits for a slave that can be waited for.
func (c *demoWriterCmd) pair(e *env, s *store.DefaultMessageStore) error {
	hello, err := json.Marshal(demoHello{s.Stats().HA.ListenAddress})
	if err != nil {
		return err
	}
	if _, err := e.stdout.Write(append(hello, '\n')); err != nil {
		return err
	}
	return (&demo{e: e}).until("a slave", func() bool {
		slaves := s.Stats().HA.Slaves
		return len(slaves) > 0 && slaves[0].Reported
	})
}

func (c *demoWriterCmd) Run(e *env) error {
	role := store.AsyncMaster
	if c.Pair {
		role = store.SyncMaster
	}
	s, err := store.Open(c.Dir, demoOptions(role, ""))
	if err != nil {
		return err
	}
	if c.Pair {
		if err := c.pair(e, s); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	ctx, stop := context.WithCancelCause(e.ctx)
	defer stop(nil)
	var (
		wg    sync.WaitGroup
		lines sync.Mutex
	)
	for p := range demoProducers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(p), uint64(time.Now().UnixNano())))
			for ctx.Err() == nil {
				m := demoMessage(rng, demoTopics[rng.IntN(len(demoTopics))], rng.Int32N(demoQueues))
				sum := crc32.ChecksumIEEE(m.Body)
				r, err := s.Put(ctx, m)
				if err != nil || r.Status != store.PutOK {
					stop(errors.Join(err, fmt.Errorf("put: %v", r.Status)))
					return
				}
				line, err := json.Marshal(ack{m.Topic, m.QueueID, r.QueueOffset, r.PhyOffset, sum})
				if err == nil {
					lines.Lock()
					_, err = e.stdout.Write(append(line, '\n'))
					lines.Unlock()
				}
				if err != nil {
					stop(err) // nobody listens any more
					return
				}
			}
		})
	}
	wg.Wait()
	err = context.Cause(ctx)
	if errors.Is(err, io.ErrClosedPipe) {
		err = nil
	}
	return errors.Join(err, s.Close())
}
