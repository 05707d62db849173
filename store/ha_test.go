package store_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/store"
)

func TestMistakesInHAOptionsAreExplained(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		name string
		o    store.Options
		says string
	}{
		{"master without a port", store.Options{HA: store.HAOptions{MasterAddress: "10.0.0.1"}}, "not host:port"},
		{"address in use", store.Options{HA: store.HAOptions{ListenAddress: taken.Addr().String()}}, "address already in use"},
		{"no address", store.Options{HA: store.HAOptions{ListenAddress: "256.0.0.1:x"}}, "HA.ListenAddress"},
		{"negative timeout", store.Options{HA: store.HAOptions{SlaveTimeout: -time.Second}}, "HA.SlaveTimeout"},
		{"negative acks", store.Options{HA: store.HAOptions{RequiredAcks: -1}}, "HA.RequiredAcks"},
		{"batch too large", store.Options{HA: store.HAOptions{BatchSize: 5 << 20}}, "BatchSize"},
		{"without goroutines", store.Options{NoBackground: true, HA: store.HAOptions{ListenAddress: "127.0.0.1:0"}}, "NoBackground"},
		{"short token", store.Options{HA: store.HAOptions{Extended: &store.HAExtended{Token: "x"}}}, "token"},
		{"no TLS", store.Options{HA: store.HAOptions{Extended: &store.HAExtended{Token: "a token of 24 characters"}}}, "TLS"},
	} {
		s, err := store.Open(t.TempDir(), c.o)
		if err == nil {
			s.Close()
			t.Errorf("%s: accepted", c.name)
		} else if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

// A listener that was handed over is closed also when Open fails, so that the next try can have its address.
func TestAFailedOpenClosesItsListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.TempDir(), store.Options{Role: 9, HA: store.HAOptions{Listener: l}}); err == nil {
		t.Fatal("opened")
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}

// The classic port knows no authentication: a port alone is loopback, and the world must be named, and is warned of (the original's defect 20).
func TestTheClassicListenerIsLoopbackUnlessToldOtherwise(t *testing.T) {
	for _, world := range []bool{false, true} {
		warned := make(chan error, 1)
		address := ":0"
		if world {
			address = "0.0.0.0:0"
		}
		s := open(t, t.TempDir(), store.Options{HA: store.HAOptions{ListenAddress: address}, Events: store.Events{ReplicationWarning: func(_ string, err error) { warned <- err }}})
		host, _, err := net.SplitHostPort(s.Stats().HA.ListenAddress)
		if err != nil {
			t.Fatal(err)
		}
		if world {
			if err := <-warned; !strings.Contains(err.Error(), "without authentication") {
				t.Error(err)
			}
		}
		if ip := net.ParseIP(host); ip.IsLoopback() == world {
			t.Errorf("%s listens on %s", address, host)
		}
		if err := s.Close(); err != nil || len(warned) != 0 {
			t.Error(err, len(warned))
		}
	}
}
