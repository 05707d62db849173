package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/conformance/memnet"
)

// pair is a connection, and its client's end as the network's.
func pair(t *testing.T, n *memnet.Network) (client *memnet.Conn, server net.Conn) {
	t.Helper()
	l := n.Listen("a:1")
	c, err := n.Dial(t.Context(), "tcp", "a:1")
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); server.Close(); l.Close() })
	return c.(*memnet.Conn), server
}

// TestBytesArriveWhenTheyShould: after the latency, after a partition, in order, and not while they are held.
func TestBytesArriveWhenTheyShould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		c, s := pair(t, n)
		begin := time.Now()
		arrives := func(want time.Duration) {
			t.Helper()
			b := make([]byte, 10)
			if k, err := s.Read(b); err != nil || string(b[:k]) != "x" || time.Since(begin) != want {
				t.Errorf("%q %v after %v, want %v", b[:k], err, time.Since(begin), want)
			}
		}
		c.Write([]byte("x"))
		arrives(0)
		n.SetLatency(time.Second)
		c.Write([]byte("x"))
		arrives(time.Second)
		n.Part(10 * time.Second)
		c.Write([]byte("x"))
		n.SetLatency(0)
		n.Part(0)
		c.Write([]byte("x"))
		arrives(12 * time.Second)
		arrives(12 * time.Second)
		n.Hold("a:1", true)
		c.Write([]byte("x"))
		s.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		n.Hold("a:1", false)
		s.SetReadDeadline(time.Time{})
		arrives(13 * time.Second)
	})
}

// TestEndsOfAConnection: a close lets what was written arrive, a cut too, a reset does not.
func TestEndsOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		for _, how := range []string{"close", "cut", "reset"} {
			c, s := pair(t, n)
			switch how {
			case "close":
				c.Write([]byte("abc"))
				c.Close()
			case "cut":
				c.CutAfter(3)
				if k, err := c.Write([]byte("abcdef")); k != 3 || err == nil {
					t.Error(k, err)
				}
			case "reset":
				c.Write([]byte("abc"))
				c.Reset()
			}
			synctest.Wait()
			b, err := io.ReadAll(s)
			if how == "reset" && (len(b) != 0 || !errors.Is(err, memnet.ErrReset)) || how != "reset" && (string(b) != "abc" || err != nil) {
				t.Errorf("%s: %q %v", how, b, err)
			}
			if _, err := s.Write([]byte("x")); err == nil {
				t.Errorf("%s: the other end can write", how)
			}
		}
	})
}

// TestADrivenNetworkDoesNothingByItself: neither a dial nor a byte nor the end gets through before it is let.
func TestADrivenNetworkDoesNothingByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		n.Drive()
		l := n.Listen("a:1")
		defer l.Close()
		dial := n.Dialer("b:1")
		timed, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := dial(timed, "tcp", "a:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		go func() {
			c, err := dial(t.Context(), "tcp", "a:1")
			if err != nil {
				t.Error(err)
				return
			}
			c.Write([]byte("abc"))
			c.Close()
		}()
		synctest.Wait()
		calls := n.Calls()
		if len(calls) != 1 || calls[0].From != "b:1" || calls[0].To != "a:1" || calls[0].Number != 2 {
			t.Fatalf("%+v", calls)
		}
		calls[0].Connect()
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c := n.Conns()[0]
		if k, eof := c.Other().Pending(); k != 3 || !eof || c.From != "b:1" || len(n.Calls()) != 0 {
			t.Fatal(k, eof, c.From, n.Calls())
		}
		s.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := s.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		s.SetReadDeadline(time.Time{})
		c.Other().Deliver(2)
		b := make([]byte, 10)
		if k, err := s.Read(b); k != 2 || err != nil {
			t.Error(k, err)
		}
		c.Other().Deliver(1)
		if rest, err := io.ReadAll(s); string(rest) != "c" || err != nil {
			t.Errorf("%q %v", rest, err)
		}
		s.Close()
		if got := n.Conns(); len(got) != 0 {
			t.Error(got)
		}
	})
}
