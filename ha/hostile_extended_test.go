package ha

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mqstore/mqstore/conformance/memnet"
)

// What unfolds to more than its header says, or than a slave takes, is refused, and costs no memory beyond the largest frame.
func TestCompressedFramesThatUnfoldAreRefused(t *testing.T) {
	const maxBody = 64 << 10
	enc, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<24))
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	var stream bytes.Buffer // says no size in its header, and wants a large window
	sw, err := zstd.NewWriter(&stream, zstd.WithWindowSize(1<<24), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 32<<20)
	for range 2 {
		if _, err := sw.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := sw.Close(); err != nil {
		t.Fatal(err)
	}
	bomb := enc.EncodeAll(zeros, nil)
	small := enc.EncodeAll(zeros[:maxBody], nil)
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0x7f}
	if len(bomb) > maxBody || stream.Len() > 4*maxBody {
		t.Fatalf("%d and %d bytes are too many to send", len(bomb), stream.Len())
	}
	for _, c := range []struct {
		name    string
		payload []byte
		body    int
		good    bool
	}{
		{"32 MiB in a frame", bomb, maxBody, false},
		{"64 MiB in a stream", stream.Bytes(), 4 * maxBody, false},
		{"a byte more than it says", small, maxBody - 1, false},
		{"what it says", small, maxBody, true},
		{"many frames", bytes.Repeat(small, 5), maxBody, false},
		{"less than it says", enc.EncodeAll(zeros[:100], nil), 101, false},
		{"a part to skip that never ends", skippable, 100, false},
		{"the beginning of a frame", bomb[:len(bomb)-1], maxBody, false},
		{"noise", randomBytes(3, 500), 1000, false},
	} {
		frame := make([]byte, extHeaderSize)
		putExtHeader(frame, extHeader{length: len(c.payload), body: c.body, zstd: true}, c.payload)
		d, err := newExtFrames(bytes.NewReader(append(frame, c.payload...)), 4<<10, 4*maxBody, true)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := d.next()
		runtime.ReadMemStats(&after)
		if c.good && (err != nil || !bytes.Equal(p.body, zeros[:c.body])) || !c.good && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %d bytes, %v", c.name, len(p.body), err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
			t.Errorf("%s: %d bytes allocated", c.name, got)
		}
		d.close()
	}
}

// A greeting that was overheard on one connection opens no other, though the peer has a certificate.
func TestAReplayedGreetingIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		mo, so := extendedPair(t)
		ev := &recorded{}
		m := startMaster(t, n, "master:1", newMemLogAt(1000, 0, 500, 1), MasterOptions{SegmentSize: 1000, Extended: mo, Events: ev.events.events()})
		checked, err := so.check(false)
		if err != nil {
			t.Fatal(err)
		}
		checked.TLS.ServerName = "master"
		dial := func() *tls.Conn {
			nc := tls.Client(rawDial(t, n), checked.TLS)
			if err := nc.HandshakeContext(context.Background()); err != nil {
				t.Fatal(err)
			}
			return nc
		}
		greet := func(nc *tls.Conn, greeting []byte) hello {
			if _, err := nc.Write(greeting); err != nil {
				t.Fatal(err)
			}
			in, err := readHello(nc)
			if err != nil {
				t.Fatal(err)
			}
			return in
		}
		first := dial()
		h := hello{version: helloVersion, a: 500, maxFrame: 1000}
		if h.proof, err = proof(first, so.Token, "slave"); err != nil {
			t.Fatal(err)
		}
		greeting := h.encode()
		if in := greet(first, greeting); in.status != statusOK {
			t.Fatalf("the first time: status %d", in.status)
		}
		first.NetConn().Close()
		synctest.Wait()
		connected := ev.count("connected")
		second := dial()
		if in := greet(second, greeting); in.status != statusToken || in.proof != [32]byte{} || in.a != 0 || in.b != 0 || in.c != 0 || in.storeID != [16]byte{} {
			t.Errorf("again: %+v", in)
		}
		if _, err := second.Read(make([]byte, 1)); err == nil {
			t.Error("the connection goes on")
		}
		// What the master answered proves nothing for a slave either.
		third := dial()
		if h.proof, err = proof(third, so.Token, "master"); err != nil {
			t.Fatal(err)
		}
		if in := greet(third, h.encode()); in.status != statusToken {
			t.Errorf("with the master's proof: %+v", in)
		}
		synctest.Wait()
		if got := m.Stats(); ev.count("connected") != connected || got.Refused != 2 || !ev.has(ErrToken) {
			t.Errorf("%+v\n%s", got, ev)
		}
	})
}

// A master's port behind which somebody speaks a byte a second, or not at all, holds a slave no longer than a handshake may take, and the next one is found.
func TestATarpitHoldsASlaveNoLongerThanAHandshake(t *testing.T) {
	for _, silent := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			mo, so := extendedPair(t)
			l := n.Listen("tarpit:1")
			var all sync.WaitGroup
			t.Cleanup(all.Wait)
			t.Cleanup(func() { l.Close() })
			all.Go(func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					if !silent {
						all.Go(func() { drip(c) })
					}
					all.Go(func() {
						io.Copy(io.Discard, c) // until the slave has enough
						c.Close()
					})
				}
			})
			src, target := newMemLogAt(1000, 0, 500, 1), newMemLog(1000)
			startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1000, Extended: mo})
			s, _ := startSlave(t, n, target, SlaveOptions{Master: "tarpit:1", Extended: so})
			time.Sleep(time.Minute)
			if st := s.Stats(); st.Failures < 5 || st.Connects != 0 || st.LastError == nil {
				t.Errorf("%+v", st)
			}
			s.SetMaster("master:1")
			time.Sleep(time.Second)
			sameLog(t, src, target)
		})
	}
}

// drip writes the beginning of a TLS record, a byte a second, until c is closed.
func drip(c net.Conn) {
	record := []byte{22, 3, 3, 0x40, 0}
	for i := 0; ; i++ {
		time.Sleep(time.Second)
		if _, err := c.Write(append(record[min(i, len(record)):], 0)[:1]); err != nil {
			return
		}
	}
}

// A master's welcome is checked as a slave's greeting is.
func TestWelcomesThatCannotBeAreRefused(t *testing.T) {
	_, so := extendedPair(t)
	s, err := NewSlave(newMemLogAt(1000, 0, 500, 1), SlaveOptions{Extended: so})
	if err != nil {
		t.Fatal(err)
	}
	var mismatch *OffsetMismatchError
	greeting := hello{version: helloVersion, a: 500, maxFrame: 1000, storeID: [16]byte{1}}
	for _, c := range []struct {
		name   string
		change func(out, in *hello)
		reason error
	}{
		{"elsewhere than the slave's end", func(_, in *hello) { in.a = 499 }, mismatch},
		{"compression that was not offered", func(_, in *hello) { in.flags = helloZstd }, ErrMalformed},
		{"a later version", func(_, in *hello) { in.version = helloVersion + 1 }, ErrVersion},
		{"version 0", func(_, in *hello) { in.version = 0 }, ErrVersion},
		{"an earlier version", func(_, in *hello) { in.version = 1 }, nil},
		{"queues that were not asked for", func(_, in *hello) { in.flags = helloQueues }, ErrMalformed},
		{"queues in version 1", func(out, in *hello) { out.flags, in.flags, in.version = helloQueues, helloQueues, 1 }, ErrMalformed},
		{"queues that were", func(out, in *hello) { out.flags, in.flags = helloQueues, helloQueues }, nil},
		{"another store", func(_, in *hello) { in.storeID = [16]byte{2} }, ErrStoreID},
		{"a status that nobody knows", func(_, in *hello) { in.status = 99 }, ErrMalformed},
		{"diverged", func(_, in *hello) { in.status = statusDiverged }, ErrDiverged},
		{"ahead", func(_, in *hello) { in.status = statusAhead }, ErrSlaveAhead},
		{"unavailable", func(_, in *hello) { in.status = statusUnavailable }, errUnavailable},
		{"no identity yet", func(_, in *hello) { in.storeID = [16]byte{} }, nil},
		{"where an empty slave shall begin", func(out, in *hello) { out.a, in.a = 0, 300 }, nil},
		{"compression that was", func(out, in *hello) { out.flags, in.flags = helloZstd, helloZstd }, nil},
	} {
		out := greeting
		in := hello{version: helloVersion, a: 500, storeID: out.storeID}
		c.change(&out, &in)
		err := s.accept(&out, &in)
		switch {
		case c.reason == error(mismatch):
			if !errors.As(err, &mismatch) {
				t.Errorf("%s: %v", c.name, err)
			}
		case !errors.Is(err, c.reason):
			t.Errorf("%s: %v", c.name, err)
		}
	}
	h := make([]byte, extHeaderSize)
	for _, n := range []int{10, 11} { // what is compressed is smaller
		putExtHeader(h, extHeader{length: n, body: 10, zstd: true}, nil)
		if _, err := parseExtHeader(h, 1000); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes that unfold to 10: %v", n, err)
		}
	}
}
