package remoting

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// ClientOptions: the zero value is the production default.
type ClientOptions struct {
	Timeout  time.Duration // of one call, dialling included; default 3 s. A context's deadline that is sooner goes first
	MaxFrame int           // bytes of a frame, both ways; default DefaultMaxFrame
	// Dial opens a connection; default TCP without delay.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

func (o ClientOptions) withDefaults() ClientOptions {
	if o.Timeout <= 0 {
		o.Timeout = 3 * time.Second
	}
	if o.MaxFrame <= 0 {
		o.MaxFrame = DefaultMaxFrame
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr) // Go's TCP sends without delay and with keep-alive
		}
	}
	return o
}

// frameTime bounds how long a frame may take from its first byte to its last.
const frameTime = 30 * time.Second

// Client sends requests to one address over one connection, dialled by the first call and dialled again by the next call after it broke.
// Its methods may be called by any number of goroutines; answers are matched by opaque, in whatever order they come. Requests of the other end are ignored.
type Client struct {
	addr string
	o    ClientOptions

	dialling chan struct{}   // holds one token: who takes it may dial
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	readers  sync.WaitGroup

	mu struct {
		sync.Mutex
		conn   *clientConn // nil before the first call
		opaque int32
		closed bool
	}
}

// NewClient makes a client of addr ("host:port"). It dials when it is first used. Close it.
func NewClient(addr string, o ClientOptions) *Client {
	c := &Client{addr: addr, o: o.withDefaults(), dialling: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.dialling <- struct{}{}
	return c
}

// Addr is the address given to NewClient.
func (c *Client) Addr() string { return c.addr }

// Call sends req, whose Opaque it chooses, and waits for the answer. An answer other than success is returned together with a *[CodeError].
// req is not kept. After a timeout or an error the request may or may not have been carried out.
func (c *Client) Call(ctx context.Context, req *Command) (*Command, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	r := *req
	r.Flag &^= flagResponse | flagOneWay
	resp, err := c.call(ctx, &r)
	if err != nil {
		return nil, fmt.Errorf("request %d to %s: %w", req.Code, c.addr, err)
	}
	if err := resp.Err(); err != nil {
		return resp, fmt.Errorf("request %d to %s: %w", req.Code, c.addr, err)
	}
	return resp, nil
}

// Send sends req as a one-way request: nobody answers, and nil means only that it was handed to the connection.
func (c *Client) Send(ctx context.Context, req *Command) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	r := *req
	r.Flag = r.Flag&^flagResponse | flagOneWay
	conn, err := c.connect(ctx)
	if err == nil {
		r.Opaque = c.nextOpaque()
		err = conn.write(ctx, &r)
	}
	if err != nil {
		return fmt.Errorf("one-way request %d to %s: %w", req.Code, c.addr, err)
	}
	return nil
}

// Close ends the connection and waits for its goroutine. Calls under way end with ErrClosed, later ones too.
func (c *Client) Close() error {
	c.mu.Lock()
	c.mu.closed = true
	conn := c.mu.conn
	c.mu.Unlock()
	c.cancel()
	if conn != nil {
		conn.fail(ErrClosed)
	}
	c.readers.Wait()
	return nil
}

func (c *Client) nextOpaque() int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.opaque++
	return c.mu.opaque
}

func (c *Client) call(ctx context.Context, r *Command) (*Command, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	r.Opaque = c.nextOpaque()
	answer, heard := conn.expect(r.Opaque)
	defer conn.forget(r.Opaque)
	if err := conn.write(ctx, r); err != nil {
		return nil, err
	}
	select {
	case resp := <-answer:
		return resp, nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			conn.failIfSilent(heard)
		}
		return nil, ctx.Err()
	case <-conn.done:
	}
	select {
	case resp := <-answer: // it came before the end
		return resp, nil
	default:
		return nil, conn.err()
	}
}

// connect is the live connection, or a new one.
func (c *Client) connect(ctx context.Context) (*clientConn, error) {
	select {
	case <-c.dialling:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.ctx.Done():
		return nil, ErrClosed
	}
	defer func() { c.dialling <- struct{}{} }()

	c.mu.Lock()
	conn, closed := c.mu.conn, c.mu.closed
	c.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case conn != nil && conn.err() == nil:
		return conn, nil
	}
	dialCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)() // Close ends a dial
	nc, err := c.o.Dial(dialCtx, c.addr)
	if err != nil {
		return nil, err
	}
	conn = newClientConn(nc, c.o.MaxFrame)
	c.mu.Lock()
	closed = c.mu.closed
	if !closed {
		c.mu.conn = conn
		c.readers.Add(1)
	}
	c.mu.Unlock()
	if closed {
		nc.Close()
		return nil, ErrClosed
	}
	go func() {
		defer c.readers.Done()
		conn.readLoop()
	}()
	return conn, nil
}

// clientConn is one connection of a client, until its first error.
type clientConn struct {
	nc       net.Conn
	maxFrame int
	writing  chan struct{} // holds one token: who takes it may write
	done     chan struct{} // closed after the error is set

	mu struct {
		sync.Mutex
		waiting map[int32]chan<- *Command
		heard   int64 // frames read
		err     error
	}
}

func newClientConn(nc net.Conn, maxFrame int) *clientConn {
	c := &clientConn{nc: nc, maxFrame: maxFrame, writing: make(chan struct{}, 1), done: make(chan struct{})}
	c.writing <- struct{}{}
	c.mu.waiting = make(map[int32]chan<- *Command)
	return c
}

func (c *clientConn) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// fail ends the connection; the first reason stays.
func (c *clientConn) fail(err error) {
	c.mu.Lock()
	first := c.mu.err == nil
	if first {
		c.mu.err = err
	}
	c.mu.Unlock()
	if first {
		close(c.done)
		c.nc.Close()
	}
}

// expect returns where the answer will come, and how many frames were read before.
func (c *clientConn) expect(opaque int32) (<-chan *Command, int64) {
	ch := make(chan *Command, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.waiting[opaque] = ch
	return ch, c.mu.heard
}

func (c *clientConn) forget(opaque int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.waiting, opaque)
}

// failIfSilent drops the connection if nothing was read since heard: a host that vanished says nothing, not even that.
func (c *clientConn) failIfSilent(heard int64) {
	c.mu.Lock()
	silent := c.mu.heard == heard
	c.mu.Unlock()
	if silent {
		c.fail(errors.New("the other end was silent for a whole call's time: connection dropped"))
	}
}

func (c *clientConn) write(ctx context.Context, r *Command) error {
	b, err := r.AppendFrame(nil, c.maxFrame)
	if err != nil {
		return err
	}
	select {
	case <-c.writing:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
		return c.err()
	}
	defer func() { c.writing <- struct{}{} }()
	if err := ctx.Err(); err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	if err := c.nc.SetWriteDeadline(deadline); err != nil {
		c.fail(err)
		return c.err()
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = c.nc.SetWriteDeadline(time.Unix(1, 0)) // the write returns now
	})
	_, err = c.nc.Write(b)
	if !stop() {
		<-interrupted // before the next writer sets its own deadline
	}
	if err != nil { // a part of the frame may be out: nothing can follow it
		c.fail(err)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return c.err()
	}
	return nil
}

func (c *clientConn) readLoop() {
	r := bufio.NewReaderSize(c.nc, 16<<10)
	for {
		m, err := readFrame(c.nc, r, 0, frameTime, c.maxFrame)
		if err != nil {
			c.fail(fmt.Errorf("connection lost: %w", err))
			return
		}
		c.mu.Lock()
		c.mu.heard++
		var ch chan<- *Command
		if m.IsResponse() {
			ch = c.mu.waiting[m.Opaque]
			delete(c.mu.waiting, m.Opaque) // one answer a request: the send below never blocks
		}
		c.mu.Unlock()
		if ch != nil {
			ch <- m
		}
	}
}

// readFrame reads the next frame, which must begin within idle (0 = whenever) and then be whole within frame.
// That a deadline cannot be set is no error: what arrived before the other end closed is still answered, and the read says what is wrong.
func readFrame(nc net.Conn, r *bufio.Reader, idle, frame time.Duration, maxFrame int) (*Command, error) {
	if r.Buffered() == 0 {
		var deadline time.Time
		if idle > 0 {
			deadline = time.Now().Add(idle)
		}
		_ = nc.SetReadDeadline(deadline)
		if _, err := r.Peek(1); err != nil {
			return nil, err
		}
	}
	_ = nc.SetReadDeadline(time.Now().Add(frame))
	return ReadCommand(r, maxFrame)
}
