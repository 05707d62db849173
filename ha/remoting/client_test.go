package remoting

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// peer runs fn on each connection that is dialled, with the number of connections before it.
func peer(t *testing.T, fn func(n int, c net.Conn)) func(context.Context, string) (net.Conn, error) {
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	n := 0
	return func(context.Context, string) (net.Conn, error) {
		a, b := net.Pipe()
		i := n
		n++
		running.Go(func() { defer b.Close(); fn(i, b) })
		return a, nil
	}
}

func TestAnswersAreMatchedByOpaqueInAnyOrder(t *testing.T) {
	const calls = 20
	c := NewClient("peer", ClientOptions{Dial: peer(t, func(_ int, c net.Conn) {
		r := bufio.NewReader(c)
		var reqs []*Command
		for range calls {
			req, err := ReadCommand(r, 0)
			if err != nil {
				t.Error(err)
				return
			}
			reqs = append(reqs, req)
		}
		send(t, c, &Command{Code: 1, Opaque: reqs[0].Opaque})              // a request of the other end
		send(t, c, &Command{Code: 1, Flag: flagResponse, Opaque: 1 << 30}) // an answer to nobody
		for i := len(reqs) - 1; i >= 0; i-- {
			resp := NewResponse(reqs[i], Success, "")
			resp.Body = reqs[i].Body
			send(t, c, resp)
			if i > 0 {
				send(t, c, resp) // twice
			}
		}
	})})
	defer c.Close()
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			got, err := c.Call(t.Context(), &Command{Code: 9, Body: []byte{byte(i)}})
			if err != nil || len(got.Body) != 1 || got.Body[0] != byte(i) {
				t.Errorf("call %d: %+v, %v", i, got, err)
			}
		})
	}
	wg.Wait()
}

func TestAnErrorAnswerIsACodeError(t *testing.T) {
	_, l := start(t, map[int32]Handler{}, ServerOptions{})
	c := NewClient("10.0.0.1:10911", ClientOptions{Dial: l.Dial})
	defer c.Close()
	resp, err := c.Call(t.Context(), NewRequest(402))
	var ce *CodeError
	if !errors.As(err, &ce) || ce.Code != CodeNotSupported || resp == nil || !strings.Contains(err.Error(), "request 402 to 10.0.0.1:10911") {
		t.Errorf("%+v, %v", resp, err)
	}
}

func TestACallTimesOutAndASilentConnectionIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClient("peer", ClientOptions{Dial: peer(t, func(n int, c net.Conn) {
			if n == 0 {
				io.Copy(io.Discard, c) // hears, says nothing
				return
			}
			req, err := ReadCommand(c, 0)
			if err == nil {
				send(t, c, NewResponse(req, Success, ""))
			}
			io.Copy(io.Discard, c)
		})})
		defer c.Close()
		began := time.Now()
		_, err := c.Call(t.Context(), NewRequest(1))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := c.Call(t.Context(), NewRequest(1)); err != nil {
			t.Errorf("on a new connection: %v", err)
		}
	})
}

func TestALateAnswerKeepsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClient("peer", ClientOptions{Dial: peer(t, func(n int, c net.Conn) {
			if n > 0 {
				t.Error("dialled again")
				return
			}
			r := bufio.NewReader(c)
			slow, _ := ReadCommand(r, 0)
			quick, _ := ReadCommand(r, 0)
			send(t, c, NewResponse(quick, Success, ""))
			time.Sleep(4 * time.Second)
			send(t, c, NewResponse(slow, Success, "")) // nobody waits any more
			last, _ := ReadCommand(r, 0)
			send(t, c, NewResponse(last, Success, ""))
			io.Copy(io.Discard, c)
		})})
		defer c.Close()
		slow := make(chan error)
		go func() { _, err := c.Call(t.Context(), NewRequest(1)); slow <- err }()
		synctest.Wait()
		if _, err := c.Call(t.Context(), NewRequest(2)); err != nil {
			t.Error(err)
		}
		if err := <-slow; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := c.Call(t.Context(), NewRequest(3)); err != nil {
			t.Error(err)
		}
	})
}

func TestTheNextCallDialsAgainAfterTheConnectionBroke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, breaks := range map[string]func(c net.Conn, req *Command){
			"closed": func(net.Conn, *Command) {},
			"random bytes": func(c net.Conn, _ *Command) {
				c.Write([]byte(strings.Repeat("\xff", 100)))
			},
			"half an answer": func(c net.Conn, req *Command) {
				b, _ := NewResponse(req, Success, "").AppendFrame(nil, 0)
				c.Write(b[:len(b)-1])
			},
			"too large": func(c net.Conn, req *Command) {
				resp := NewResponse(req, Success, "")
				resp.Body = make([]byte, 2000)
				b, _ := resp.AppendFrame(nil, 0)
				c.Write(b)
			},
		} {
			c := NewClient("peer", ClientOptions{MaxFrame: 1000, Dial: peer(t, func(n int, c net.Conn) {
				req, err := ReadCommand(c, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if n == 0 {
					breaks(c, req)
					return
				}
				send(t, c, NewResponse(req, Success, ""))
			})})
			began := time.Now()
			if _, err := c.Call(t.Context(), NewRequest(1)); err == nil || !strings.Contains(err.Error(), "connection lost") || time.Since(began) != 0 {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
			if _, err := c.Call(t.Context(), NewRequest(1)); err != nil {
				t.Errorf("%s: second call: %v", name, err)
			}
			c.Close()
		}
	})
}

func TestACallerMayGiveUpAtAnyPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, dial := range map[string]func(context.Context, string) (net.Conn, error){
			"dialling":         func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
			"peer reads not":   peer(t, func(_ int, c net.Conn) { time.Sleep(time.Second) }),
			"peer answers not": peer(t, func(_ int, c net.Conn) { io.Copy(io.Discard, c) }),
		} {
			c := NewClient("peer", ClientOptions{Dial: dial})
			var wg sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			for range 3 { // one at work, the others behind it
				wg.Go(func() {
					if _, err := c.Call(ctx, NewRequest(1)); !errors.Is(err, context.Canceled) {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			synctest.Wait()
			began := time.Now()
			cancel()
			wg.Wait()
			if d := time.Since(began); d != 0 {
				t.Errorf("%s: gave up after %v", name, d)
			}
			c.Close()
		}
	})
}

func TestCloseEndsCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, dial := range map[string]func(context.Context, string) (net.Conn, error){
			"dialling": func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
			"waiting":  peer(t, func(_ int, c net.Conn) { io.Copy(io.Discard, c) }),
		} {
			c := NewClient("peer", ClientOptions{Dial: dial})
			ended := make(chan error)
			go func() { _, err := c.Call(t.Context(), NewRequest(1)); ended <- err }()
			synctest.Wait()
			began := time.Now()
			c.Close()
			if err := <-ended; err == nil || time.Since(began) != 0 {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
			if err := c.Send(t.Context(), NewRequest(1)); !errors.Is(err, ErrClosed) {
				t.Errorf("%s: after Close: %v", name, err)
			}
		}
	})
}
