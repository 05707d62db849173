package sim

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/memnet"
	"github.com/mqstore/mqstore/store"
)

// scripted is a classic master that sends one frame to each connection, a piece at a time, and is silent then.
func scripted(t *testing.T, n *memnet.Network, address string, phyOffset int64, body []byte, piece int) {
	l := n.Listen(address)
	frame := binary.BigEndian.AppendUint64(nil, uint64(phyOffset))
	frame = append(binary.BigEndian.AppendUint32(frame, uint32(len(body))), body...)
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		n.Reset(address)
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				send(c, frame, piece)
				io.Copy(io.Discard, c) // until the slave has enough
			})
		}
	})
}

func send(c net.Conn, b []byte, piece int) {
	for len(b) > 0 {
		k := min(len(b), piece)
		if _, err := c.Write(b[:k]); err != nil {
			return
		}
		b = b[k:]
		time.Sleep(time.Millisecond)
	}
}

// TestASlaveTakesOnlyWhatFollowsItsLog: bytes at the right offset that are not the record of that place come from a log that went another way, or from no log. They are refused however they are cut, the slave's log stays good, and
// when its own master is back it goes on. The original appends them.
func TestASlaveTakesOnlyWhatFollowsItsLog(t *testing.T) {
	const small = 4 << 10
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		o := store.Options{SegmentSize: small}
		a := start(t, n, "a:1", o)
		o.Role, o.HA.MasterAddress = store.Slave, "a:1"
		b := start(t, n, "b:1", o)
		put(t, a.s, message("T", 0, strings.Repeat("x", 300)))
		caughtUp(t, a, b)
		end := a.s.MaxPhyOffset()
		raw := func(at int64) []byte {
			v, err := a.s.CommitLogData(at, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer v.Release()
			return append([]byte(nil), v.Bytes...)
		}
		first := raw(0)
		blank := func(size int64) []byte {
			p := make([]byte, size)
			binary.BigEndian.PutUint32(p, uint32(size))
			binary.BigEndian.PutUint32(p[4:], record.MagicBlank)
			return p
		}
		for name, body := range map[string][]byte{
			"four bytes of text":          []byte("HTTP/1.1 400 Bad Request"),
			"the middle of a record":      first[60:],
			"zeros":                       make([]byte, 200),
			"a record of another place":   first,
			"a blank that ends elsewhere": blank(small - end - 8),
			"a record without a body":     append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 20), record.MagicV1), make([]byte, 30)...),
			"a record that never ends":    append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 1<<31-1), record.MagicV1), make([]byte, 30)...),
		} {
			for i, piece := range []int{1, 7, 1000} {
				address := fmt.Sprintf("%s-%d:1", strings.ReplaceAll(name, " ", "-"), i)
				scripted(t, n, address, end, body, piece)
				before := b.s.Stats().HA.Following.Failures
				if err := b.s.UpdateHaMasterAddress(address); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				f := b.s.Stats().HA.Following
				if !strings.Contains(f.Diverged, fmt.Sprintf("at physical offset %d", end)) || !b.events.has(store.ErrDiverged) {
					t.Errorf("%s, %d bytes at a time: %+v", name, piece, f)
				}
				if st := b.s.Stats(); st.MaxPhyOffset != end || st.DispatchHeldUp != "" || st.MaxPhyOffset != st.DispatchedPhyOffset {
					t.Errorf("%s, %d bytes at a time: %+v", name, piece, st)
				}
				if got := f.Failures - before; got > 30 {
					t.Errorf("%s, %d bytes at a time: %d connections in a minute", name, piece, got)
				}
			}
		}
		if got := b.events.count("diverged"); got > 7*3 {
			t.Errorf("%d events for %d masters", got, 7*3)
		}

		// Its own master sends what follows, also byte by byte, and also when that is a blank.
		put(t, a.s, message("T", 0, strings.Repeat("y", 300)))
		next := raw(end)
		scripted(t, n, "a-slow:1", end, next, 1)
		if err := b.s.UpdateHaMasterAddress("a-slow:1"); err != nil {
			t.Fatal(err)
		}
		caughtUp(t, a, b)
		synctest.Wait()
		if f := b.s.Stats().HA.Following; f.Diverged != "" {
			t.Errorf("%+v", f)
		}
		if err := b.s.UpdateHaMasterAddress(""); err != nil {
			t.Fatal(err)
		}
		// Up to where only a blank fits.
		for room := int64(small) - a.s.MaxPhyOffset(); room > 300; room = small - a.s.MaxPhyOffset() {
			put(t, a.s, message("T", 0, strings.Repeat("z", int(min(room-200, 1000)))))
		}
		if err := b.s.UpdateHaMasterAddress("a:1"); err != nil {
			t.Fatal(err)
		}
		caughtUp(t, a, b)
		stopped := b.s.MaxPhyOffset()
		b.stop()
		put(t, a.s, message("T", 0, strings.Repeat("b", 500)))
		if word := raw(stopped)[4:8]; binary.BigEndian.Uint32(word) != record.MagicBlank {
			t.Fatalf("the slave does not go on at a blank: % x", word)
		}
		b.open()
		caughtUp(t, a, b)
		same(t, a, b)
	})
}
