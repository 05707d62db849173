package remoting

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = time.Millisecond

func send(t *testing.T, c net.Conn, cmd *Command) {
	t.Helper()
	b, err := cmd.AppendFrame(nil, 0)
	if err == nil {
		_, err = c.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestARequestIsAnsweredInItsOwnSerialization(t *testing.T) {
	_, l := start(t, map[int32]Handler{
		1: echo,
		2: func(context.Context, net.Addr, *Command) (*Command, error) { return nil, errors.New("no such thing") },
		3: func(context.Context, net.Addr, *Command) (*Command, error) {
			return nil, &CodeError{Code: 17, Remark: "topic not exist"}
		},
		4: func(context.Context, net.Addr, *Command) (*Command, error) { return nil, nil },
		5: func(context.Context, net.Addr, *Command) (*Command, error) {
			return &Command{Body: make([]byte, 2000)}, nil
		},
		6: func(context.Context, net.Addr, *Command) (*Command, error) {
			return nil, errors.New(strings.Repeat("ä", 10_000))
		},
	}, ServerOptions{MaxAnswer: 8 << 10})
	_, small := start(t, map[int32]Handler{5: func(context.Context, net.Addr, *Command) (*Command, error) {
		return &Command{Body: make([]byte, 2000)}, nil
	}}, ServerOptions{MaxAnswer: 1000})
	for _, s := range []Serialization{JSON, Binary} {
		for _, c := range []struct {
			l      *pipeListener
			code   int32
			want   int32
			remark string
		}{
			{l, 1, Success, ""},
			{l, 2, SystemError, "no such thing"},
			{l, 3, 17, "topic not exist"},
			{l, 4, Success, ""},
			{l, 5, Success, ""},
			{l, 6, SystemError, "ä"},
			{l, 7, CodeNotSupported, "7"},
			{small, 5, SystemError, "too large"},
		} {
			conn := dial(t, c.l)
			send(t, conn, &Command{Code: c.code, Opaque: -5, Serialization: s, Body: []byte("body"), ExtFields: map[string]string{"k": "v"}})
			got, err := ReadCommand(conn, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got.Code != c.want || got.Opaque != -5 || got.Serialization != s || !got.IsResponse() || !strings.Contains(got.Remark, c.remark) {
				t.Errorf("code %d, type %d: %+v", c.code, s, got)
			}
			if c.code == 1 && (string(got.Body) != "body" || cmp.Diff(got.ExtFields, map[string]string{"k": "v"}) != "") {
				t.Errorf("echo: %+v", got)
			}
		}
	}
}

func TestRequestsOfOneConnectionRunSideBySideUpToTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		release := make(chan struct{})
		_, l := start(t, map[int32]Handler{1: func(context.Context, net.Addr, *Command) (*Command, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-release
			mu.Lock()
			running--
			mu.Unlock()
			return nil, nil
		}}, ServerOptions{MaxConcurrent: 3})
		c := NewClient("master", ClientOptions{Dial: l.Dial})
		defer c.Close()
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				if _, err := c.Call(t.Context(), NewRequest(1)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		mu.Lock()
		if running != 3 {
			t.Errorf("%d requests at a time, the limit is 3", running)
		}
		mu.Unlock()
		close(release)
		calls.Wait()
		if most != 3 {
			t.Errorf("at most %d requests at a time", most)
		}
	})
}

func TestOneWayRequestsAreHandledAndNotAnswered(t *testing.T) {
	handled := make(chan *Command, 1)
	_, l := start(t, map[int32]Handler{1: echo, 2: func(_ context.Context, _ net.Addr, req *Command) (*Command, error) {
		handled <- req
		return nil, errors.New("nobody hears this")
	}}, ServerOptions{})
	c := NewClient("master", ClientOptions{Dial: l.Dial})
	defer c.Close()
	if err := c.Send(t.Context(), &Command{Code: 2, Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if got := <-handled; !got.IsOneWay() || string(got.Body) != "x" {
		t.Errorf("%+v", got)
	}
	conn := dial(t, l)
	send(t, conn, &Command{Code: 2, Flag: flagOneWay, Opaque: 1})
	send(t, conn, &Command{Code: 1, Flag: flagResponse, Opaque: 2}) // an answer to nothing
	send(t, conn, &Command{Code: 1, Opaque: 3})
	if got, err := ReadCommand(conn, 0); err != nil || got.Opaque != 3 {
		t.Errorf("the first answer is %+v, %v; want that of the request that has one", got, err)
	}
	<-handled
}

func TestHostilePeersAreCutOff(t *testing.T) {
	huge := binary.BigEndian.AppendUint32(nil, 1<<31-1)
	for name, c := range map[string]struct {
		act  func(c net.Conn)
		want error         // of ConnClosed; nil = any
		by   time.Duration // cut off at the latest
	}{
		"random bytes": {func(c net.Conn) {
			b := make([]byte, 4096)
			rng := rand.New(rand.NewPCG(3, 4))
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			c.Write(b)
		}, nil, 0},
		"huge length":     {func(c net.Conn) { c.Write(append(huge, 0, 0, 0, 2)) }, ErrTooLarge, 0},
		"negative length": {func(c net.Conn) { c.Write([]byte{255, 0, 0, 0, 0, 0, 0, 0}) }, ErrTooLarge, 0},
		"bad header":      {func(c net.Conn) { c.Write(frame(JSON, "[]", "")) }, ErrMalformed, 0},
		"silence":         {func(net.Conn) {}, nil, 120 * time.Second},
		"half a frame":    {func(c net.Conn) { c.Write([]byte{0, 0, 1}) }, nil, 30 * time.Second},
		"one byte a second": {func(c net.Conn) {
			for _, b := range frame(JSON, "{}", strings.Repeat("x", 1000)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, nil, 31 * time.Second},
		"takes no answer": {func(c net.Conn) {
			b, _ := (&Command{Code: 1, Body: make([]byte, 1000)}).AppendFrame(nil, 0)
			for {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}, nil, 31 * time.Second},
		"half-closed": {func(c net.Conn) { c.Close() }, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type end struct {
					after time.Duration
					err   error
				}
				began, ends := time.Now(), make(chan end, 2)
				s, l := start(t, map[int32]Handler{1: echo}, ServerOptions{ConnClosed: func(_ net.Addr, err error) { ends <- end{time.Since(began), err} }})

				good := NewClient("good", ClientOptions{Dial: l.Dial})
				defer good.Close()
				bad := dial(t, l)
				acted := make(chan struct{})
				go func() { defer close(acted); c.act(bad) }()
				synctest.Wait()
				if _, err := good.Call(t.Context(), NewRequest(1)); err != nil {
					t.Errorf("an orderly peer beside it: %v", err)
				}
				good.Close()
				for range 2 {
					e := <-ends
					if e.after == 0 && e.err == nil { // the orderly one
						continue
					}
					if e.after > c.by || c.want != nil && !errors.Is(e.err, c.want) {
						t.Errorf("cut off after %v: %v; want %v within %v", e.after, e.err, c.want, c.by)
					}
				}
				<-acted
				if n := s.Conns(); n != 0 {
					t.Errorf("%d connections left", n)
				}
				bad.Close()
			})
		})
	}
}

func TestConnectionsBeyondTheLimitAreRefusedAndOthersServed(t *testing.T) {
	refused := make(chan error, 1000)
	s, l := start(t, map[int32]Handler{1: echo}, ServerOptions{MaxConns: 5, ConnClosed: func(_ net.Addr, err error) {
		if errors.Is(err, ErrTooManyConns) {
			refused <- err
		}
	}})
	var kept []net.Conn
	for range 5 {
		c := dial(t, l)
		send(t, c, &Command{Code: 1})
		if _, err := ReadCommand(c, 0); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, c)
	}
	for range 1000 {
		if c := dial(t, l); !isOver(c) {
			t.Fatal("a sixth connection was kept open")
		}
		<-refused
	}
	if s.Conns() != 5 {
		t.Errorf("%d connections", s.Conns())
	}
	for _, c := range kept {
		send(t, c, &Command{Code: 1})
		if _, err := ReadCommand(c, 0); err != nil {
			t.Error(err)
		}
	}
}

func TestCloseEndsHandlersThatWait(t *testing.T) {
	entered := make(chan struct{})
	s, l := start(t, map[int32]Handler{1: func(ctx context.Context, _ net.Addr, _ *Command) (*Command, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	}}, ServerOptions{})
	c := dial(t, l)
	send(t, c, &Command{Code: 1})
	<-entered
	s.Close()
	if !isOver(c) {
		t.Error("the connection outlives the server")
	}
	if err := s.Serve(newPipeListener()); !errors.Is(err, ErrClosed) {
		t.Errorf("Serve after Close: %v", err)
	}
}

// failingListener fails a few times as a process without free descriptors does, then for good.
type failingListener struct {
	net.Listener
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, err
}

func TestServeOutlivesPassingErrorsOfAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passing := &net.OpError{Op: "accept", Err: errors.New("too many open files")}
		final := errors.New("gone")
		s := NewServer(nil, ServerOptions{})
		defer s.Close()
		l := &failingListener{newPipeListener(), []error{passing, passing, passing, final}}
		began := time.Now()
		if err := s.Serve(l); !errors.Is(err, final) {
			t.Errorf("Serve: %v", err)
		}
		if d := time.Since(began); d != 35*ms {
			t.Errorf("waited %v, want 5 + 10 + 20 ms", d)
		}
	})
}

func TestItWorksOverTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(map[int32]Handler{1: echo}, ServerOptions{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c := NewClient(l.Addr().String(), ClientOptions{Timeout: time.Minute}) // 10 MiB there and back on a busy machine
	body := make([]byte, 10<<20)
	for i := range body {
		body[i] = byte(i * i)
	}
	got, err := c.Call(t.Context(), &Command{Code: 1, Body: body})
	if err != nil || string(got.Body) != string(body) {
		t.Errorf("%v", err)
	}
	c.Close()
	s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := c.Call(t.Context(), NewRequest(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("call after Close: %v", err)
	}
}
