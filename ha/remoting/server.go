package remoting

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Handler answers requests of one code. from is the peer's address. It owns req.
// A nil answer with a nil error is an empty success; an error is answered with its *[CodeError]'s code, else with code 1, and its text as remark.
// The answer's opaque, serialization and response flag are set by the server. What a handler of a one-way request returns is dropped.
// ctx ends with the connection or the server.
type Handler func(ctx context.Context, from net.Addr, req *Command) (*Command, error)

// ServerOptions: the zero value of each field is the production default.
type ServerOptions struct {
	MaxFrame      int           // bytes of a request's whole frame; default DefaultMaxFrame
	MaxAnswer     int           // bytes of an answer's whole frame; default DefaultMaxFrame: a larger one is answered with code 1
	MaxConns      int           // connections at a time; default 1024. Further ones are closed at once
	MaxConcurrent int           // requests of one connection at a time; default 16. Further ones wait unread
	IdleTimeout   time.Duration // between two requests; default 120 s, as the original
	FrameTimeout  time.Duration // from the first byte of a frame to its last, in and out; default 30 s

	// ConnClosed, if set, is called when a connection ended: nil after a peer's orderly end or Close. Refused connections too, with ErrTooManyConns.
	// It is called on the connection's goroutine.
	ConnClosed func(from net.Addr, err error)
}

// ErrTooManyConns is why a connection was refused.
var ErrTooManyConns = errors.New("remoting: too many connections")

func (o ServerOptions) withDefaults() ServerOptions {
	for _, d := range []struct {
		p   *int
		def int
	}{{&o.MaxFrame, DefaultMaxFrame}, {&o.MaxAnswer, DefaultMaxFrame}, {&o.MaxConns, 1024}, {&o.MaxConcurrent, 16}} {
		if *d.p <= 0 {
			*d.p = d.def
		}
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 120 * time.Second
	}
	if o.FrameTimeout <= 0 {
		o.FrameTimeout = frameTime
	}
	if o.ConnClosed == nil {
		o.ConnClosed = func(net.Addr, error) {}
	}
	return o
}

// Server answers requests on any number of listeners. A connection costs two goroutines, and one for each request under way.
type Server struct {
	o        ServerOptions
	handlers map[int32]Handler
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup // Serve calls and connections

	mu struct {
		sync.Mutex
		closed    bool
		listeners map[net.Listener]struct{}
		conns     map[net.Conn]struct{}
	}
}

// NewServer makes a server with one handler a request code; a code without one is answered with CodeNotSupported. The map must not change any more.
func NewServer(handlers map[int32]Handler, o ServerOptions) *Server {
	s := &Server{o: o.withDefaults(), handlers: handlers}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.listeners = make(map[net.Listener]struct{})
	s.mu.conns = make(map[net.Conn]struct{})
	return s
}

// Serve accepts connections until Close, which closes l and makes Serve return nil, or until l fails for good. It may run for several listeners at once.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		l.Close()
		return ErrClosed
	}
	s.mu.listeners[l] = struct{}{}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	defer func() {
		l.Close()
		s.mu.Lock()
		delete(s.mu.listeners, l)
		s.mu.Unlock()
	}()
	const first, most = 5 * time.Millisecond, time.Second
	pause := first
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = first
			s.start(nc)
			continue
		}
		if s.ctx.Err() != nil {
			return nil
		}
		// Too many open files and the like pass: connections end, and the next accept succeeds.
		var ne net.Error
		if !errors.As(err, &ne) || errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, most)
		case <-s.ctx.Done():
			return nil
		}
	}
}

// Close ends listeners and connections and waits for every goroutine, handlers included.
func (s *Server) Close() error {
	s.mu.Lock()
	s.mu.closed = true
	var closers []io.Closer
	for l := range s.mu.listeners {
		closers = append(closers, l)
	}
	for c := range s.mu.conns {
		closers = append(closers, c)
	}
	s.mu.Unlock()
	s.cancel()
	for _, c := range closers {
		c.Close()
	}
	s.running.Wait()
	return nil
}

// Conns is the number of connections.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.conns)
}

func (s *Server) start(nc net.Conn) {
	s.mu.Lock()
	closed := s.mu.closed
	full := len(s.mu.conns) >= s.o.MaxConns
	if !closed && !full {
		s.mu.conns[nc] = struct{}{}
		s.running.Add(1)
	}
	s.mu.Unlock()
	switch {
	case closed:
		nc.Close()
	case full:
		nc.Close()
		s.o.ConnClosed(nc.RemoteAddr(), ErrTooManyConns)
	default:
		go s.serveConn(nc)
	}
}

func (s *Server) serveConn(nc net.Conn) {
	defer s.running.Done()
	ctx, cancel := context.WithCancel(s.ctx)
	out := make(chan []byte)
	writerErr := make(chan error, 1)
	go func() { writerErr <- s.write(ctx, cancel, nc, out) }()

	err := s.read(ctx, nc, out)
	cancel()
	nc.Close()
	if werr := <-writerErr; werr != nil {
		err = werr // what made the reader fail
	}
	if s.ctx.Err() != nil || errors.Is(err, io.EOF) {
		err = nil
	}
	s.mu.Lock()
	delete(s.mu.conns, nc)
	s.mu.Unlock()
	s.o.ConnClosed(nc.RemoteAddr(), err)
}

// read starts a goroutine for each request, at most MaxConcurrent, and returns after they ended.
func (s *Server) read(ctx context.Context, nc net.Conn, out chan<- []byte) error {
	var handling sync.WaitGroup
	defer handling.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // first: handlers that wait end too
	slots := make(chan struct{}, s.o.MaxConcurrent)
	r := bufio.NewReaderSize(nc, 4<<10)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		req, err := readFrame(nc, r, s.o.IdleTimeout, s.o.FrameTimeout, s.o.MaxFrame)
		if err != nil {
			return err
		}
		if req.IsResponse() { // to nothing that we asked
			<-slots
			continue
		}
		handling.Go(func() {
			defer func() { <-slots }()
			b := s.answer(ctx, nc.RemoteAddr(), req)
			if b == nil {
				return
			}
			select {
			case out <- b:
			case <-ctx.Done():
			}
		})
	}
}

// answer is the frame that answers req; nil for a one-way request.
func (s *Server) answer(ctx context.Context, from net.Addr, req *Command) []byte {
	// The handler owns req and may change it.
	oneWay := req.IsOneWay()
	to := &Command{Code: req.Code, Opaque: req.Opaque, Serialization: req.Serialization}
	resp, err := s.handle(ctx, from, req)
	if oneWay {
		return nil
	}
	if err != nil {
		resp = errorAnswer(to, err)
	}
	b, err := toAnswer(to, resp).AppendFrame(nil, s.o.MaxAnswer)
	if err == nil {
		return b
	}
	b, err = errorAnswer(to, err).AppendFrame(nil, s.o.MaxAnswer)
	if err != nil { // a limit below the size of an error
		return nil
	}
	return b
}

func (s *Server) handle(ctx context.Context, from net.Addr, req *Command) (*Command, error) {
	h := s.handlers[req.Code]
	if h == nil {
		return nil, &CodeError{Code: CodeNotSupported, Remark: fmt.Sprintf("request type %d not supported", req.Code)}
	}
	return h(ctx, from, req)
}

func toAnswer(req, resp *Command) *Command {
	if resp == nil {
		return NewResponse(req, Success, "")
	}
	r := *resp
	r.Opaque, r.Serialization, r.Flag = req.Opaque, req.Serialization, r.Flag&^flagOneWay|flagResponse
	return &r
}

func errorAnswer(req *Command, err error) *Command {
	code, remark := int32(SystemError), err.Error()
	var ce *CodeError
	if errors.As(err, &ce) && ce.Code != Success {
		code, remark = ce.Code, ce.Remark
	}
	const most = 4 << 10
	return NewResponse(req, code, strings.ToValidUTF8(remark[:min(len(remark), most)], ""))
}

// write sends frames until ctx ends. After an error it ends the connection, which ends the reader.
func (s *Server) write(ctx context.Context, cancel context.CancelFunc, nc net.Conn, out <-chan []byte) error {
	for {
		select {
		case b := <-out:
			err := nc.SetWriteDeadline(time.Now().Add(s.o.FrameTimeout))
			if err == nil {
				_, err = nc.Write(b)
			}
			if err != nil {
				cancel()
				nc.Close()
				if s.ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("answer: %w", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}
