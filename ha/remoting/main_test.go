package remoting

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipeListener accepts what its Dial opens: a network in memory, for fake time.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 10911} }

func (l *pipeListener) Dial(ctx context.Context, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.conns <- b:
		return a, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// start serves on a listener in memory until the test ends.
func start(t *testing.T, handlers map[int32]Handler, o ServerOptions) (*Server, *pipeListener) {
	t.Helper()
	s, l := NewServer(handlers, o), newPipeListener()
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil && !errors.Is(err, ErrClosed) { // which it is if Close was first
			t.Errorf("Serve: %v", err)
		}
	})
	return s, l
}

func dial(t *testing.T, l *pipeListener) net.Conn {
	t.Helper()
	c, err := l.Dial(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func echo(_ context.Context, _ net.Addr, req *Command) (*Command, error) {
	return &Command{Body: req.Body, ExtFields: req.ExtFields}, nil
}

// isOver says whether the other end closes the connection; it waits for it.
func isOver(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	_, err := io.Copy(io.Discard, c)
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe)
}
