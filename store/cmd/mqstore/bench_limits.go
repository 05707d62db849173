package main

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// memcpyBytes is more than most caches hold.
const memcpyBytes = 64 << 20

// memcpy says between which places a limit copies: a message that is at hand and a log that is not in the caches.
type memcpy uint8

const (
	toLog      memcpy = iota // as a put does: pieces one behind the other
	fromLog                  // as a get does
	fromRandom               // as what a query finds
)

// memcpy is as many goroutines as work beside, each copying pieces of the size of a record: what work that also copies cannot pass.
func (b *bench) memcpy(kind memcpy, goroutines int) worker {
	record := int(b.p.record)
	type copier struct {
		at, piece []byte // the log's part that is next, and a message
		log       []byte
		rng       *rand.Rand
	}
	goroutines = min(goroutines, len(b.mem)/record) // as many as have room for a record
	all, each := make([]copier, goroutines), len(b.mem)/goroutines
	for id := range all {
		all[id] = copier{log: b.mem[id*each : (id+1)*each], piece: make([]byte, record), rng: rand.New(rand.NewPCG(uint64(id), 1))}
	}
	const some = 64 // between two looks at the clock
	return func(d time.Duration) (turn, error) {
		t, err := b.together(goroutines, d, func(id int) (int64, bool, error) {
			c := &all[id]
			for range some {
				if kind == fromRandom {
					c.at = c.log[c.rng.IntN(len(c.log)-record+1):]
				} else if len(c.at) < record {
					c.at = c.log
				}
				if kind == toLog {
					copy(c.at[:record], c.piece)
				} else {
					copy(c.piece, c.at)
				}
				c.at = c.at[record:]
			}
			return some, true, nil
		})
		t.bytes = t.n * int64(record)
		return t, err
	}
}

// newMemory is a log in memory, with all its pages.
func newMemory(n int64) []byte {
	m := make([]byte, n)
	m[0] = 7
	for done := 1; done < len(m); done *= 2 {
		copy(m[done:], m[:done])
	}
	return m
}

// syncFile is a file for the fdatasync limits. It was written before, in small pieces: such a file costs the least, since no sync has to tell the file system anything.
type syncFile struct {
	f    *os.File
	size int64
	at   int64
}

func (b *bench) syncFile() (*syncFile, error) {
	f, err := os.Create(filepath.Join(b.dir, "fdatasync"))
	if err != nil {
		return nil, err
	}
	s := &syncFile{f: f, size: b.p.syncFile}
	page := make([]byte, 4096)
	for at := int64(0); at < s.size; at += int64(len(page)) {
		if at%(1<<20) == 0 {
			if err = b.e.ctx.Err(); err != nil {
				break
			}
		}
		if _, err = f.WriteAt(page, at); err != nil {
			break
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

func (s *syncFile) close() error { return s.f.Close() }

// fdatasync writes n bytes behind the last ones and waits for the disk, again and again, alone.
func (b *bench) fdatasync(s *syncFile, n int64, took *latencies) worker {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i)
	}
	return func(d time.Duration) (turn, error) {
		t, err := b.together(1, d, func(int) (int64, bool, error) {
			if s.at+n > s.size {
				s.at = 0
			}
			begin := time.Now()
			if _, err := s.f.WriteAt(p, s.at); err != nil {
				return 0, false, err
			}
			if err := fdatasync(s.f); err != nil {
				return 0, false, fmt.Errorf("%s: %w", s.f.Name(), err)
			}
			took.add(time.Since(begin))
			s.at += n
			return 1, true, nil
		})
		t.bytes = t.n * n
		return t, err
	}
}

// readCRC reads the log's files from their start once, with one goroutine, and sums what it reads: what a recovery that checks every byte does at least. It counts bytes.
func (b *bench) readCRC(logDir string, end int64) worker {
	return func(time.Duration) (turn, error) {
		names, err := os.ReadDir(logDir)
		if err != nil {
			return turn{}, err
		}
		names = slices.DeleteFunc(names, func(d os.DirEntry) bool {
			return len(d.Name()) != 20 || strings.Trim(d.Name(), "0123456789") != ""
		})
		buf := make([]byte, 256<<10)
		var t turn
		begin := time.Now()
		for _, name := range names {
			f, err := os.Open(filepath.Join(logDir, name.Name()))
			if err != nil {
				return turn{}, err
			}
			sum := uint32(0)
			for err == nil && t.n < end {
				var n int
				n, err = f.Read(buf[:min(int64(len(buf)), end-t.n)])
				sum = crc32.Update(sum, crc32.IEEETable, buf[:n])
				t.n += int64(n)
				if err == nil {
					err = b.e.ctx.Err()
				}
			}
			runtime.KeepAlive(sum)
			if f.Close(); err != nil && !errors.Is(err, io.EOF) {
				return turn{}, err
			}
		}
		t.bytes, t.took = t.n, time.Since(begin)
		return t, nil
	}
}

// echo answers each n bytes with 8 over one loopback connection: what an acknowledgement costs at least.
type echo struct {
	l    net.Listener
	c    net.Conn
	done chan struct{}
}

func newEcho(n int64) (*echo, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	x := &echo{l: l, done: make(chan struct{})}
	go func() {
		defer close(x.done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, n)
		for {
			if _, err := io.ReadFull(c, buf); err != nil {
				return
			}
			if _, err := c.Write(buf[:8]); err != nil {
				return
			}
		}
	}()
	if x.c, err = net.Dial("tcp", l.Addr().String()); err != nil {
		l.Close()
		<-x.done
		return nil, err
	}
	return x, nil
}

func (x *echo) close() {
	x.c.Close()
	x.l.Close()
	<-x.done
}

// roundTrip sends n bytes and waits for the answer, again and again.
func (b *bench) roundTrip(x *echo, n int64, took *latencies) worker {
	p, answer := make([]byte, n), make([]byte, 8)
	return func(d time.Duration) (turn, error) {
		t, err := b.together(1, d, func(int) (int64, bool, error) {
			begin := time.Now()
			if _, err := x.c.Write(p); err != nil {
				return 0, false, err
			}
			if _, err := io.ReadFull(x.c, answer); err != nil {
				return 0, false, err
			}
			took.add(time.Since(begin))
			return 1, true, nil
		})
		t.bytes = t.n * n
		return t, err
	}
}
