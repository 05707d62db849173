package faultfs

import (
	"bytes"
	"fmt"
	"syscall"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

type mapping struct {
	f        *FS
	path     string
	n        *node
	readOnly bool
	closed   bool // guarded by f.mu
	b        []byte
}

func (f *FS) mapping(path string, n *node, readOnly bool) *mapping {
	n.maps++
	return &mapping{f: f, path: path, n: n, readOnly: readOnly, b: n.mem}
}

func (m *mapping) Bytes() []byte { return m.b }

func (m *mapping) check(what string, off, n int64) error {
	if m.closed {
		return fmt.Errorf("%s %s: %w", what, m.path, mappedfile.ErrClosed)
	}
	if off < 0 || n < 0 || off > int64(len(m.n.mem))-n {
		return fmt.Errorf("%s %s: range [%d, +%d) of a file of %d bytes: %w", what, m.path, off, n, len(m.n.mem), mappedfile.ErrNotFound)
	}
	return nil
}

func (m *mapping) Sync(off, n int64) error { return m.sync(off, n, false) }

// Renew writes everything once more, also the pages that a failed sync dropped.
func (m *mapping) Renew(off, n int64) error { return m.sync(off, n, true) }

func (m *mapping) sync(off, n int64, again bool) error {
	done, fault, err := m.f.begin(Op{Kind: OpSync, Path: m.path, Off: off, Len: n}, false)
	if err != nil {
		return err
	}
	defer done()
	if err := m.check("sync", off, n); err != nil {
		return err
	}
	if m.readOnly {
		return nil
	}
	if fault == nil && m.f.mu.readOnly {
		fault = fmt.Errorf("sync %s: %w", m.path, syscall.EROFS)
	}
	m.n.mustBeAllocated(m.path, int(off), int(off+n))
	m.n.modTime = m.f.timeLocked()
	dice := m.f.dice()
	m.n.eachPage(int(off), int(off+n), func(p, a, b int) {
		if old, is := m.n.dropped[p]; is {
			if !again && bytes.Equal(old[a-p*pageSize:b-p*pageSize], m.n.mem[a:b]) {
				return // the kernel thinks it clean
			}
			delete(m.n.dropped, p)
		}
		if fault == nil || dice.IntN(2) == 0 {
			copy(m.n.dur[a:b], m.n.mem[a:b])
			return
		}
		if m.n.dropped == nil {
			m.n.dropped = map[int][]byte{}
		}
		m.n.dropped[p] = m.n.pageImage(p, a, b)
	})
	if fault == nil && n > 0 {
		m.n.unsized = false
	}
	return fault
}

// pageImage is page p as a process sees it within [a, b), and as the device has it elsewhere.
func (n *node) pageImage(p, a, b int) []byte {
	start := p * pageSize
	image := append([]byte{}, n.dur[start:min(start+pageSize, len(n.dur))]...)
	copy(image[a-start:], n.mem[a:b])
	return image
}

// eachPage calls do for each page p that meets [from, to), with the part [a, b) of the file that is in both.
func (n *node) eachPage(from, to int, do func(p, a, b int)) {
	for a := from; a < to; {
		p := a / pageSize
		b := min((p+1)*pageSize, to)
		do(p, a, b)
		a = b
	}
}

func (n *node) mustBeAllocated(path string, from, to int) {
	n.eachPage(from, to, func(p, a, b int) {
		if !n.allocated[p] && !zero(n.mem[a:b]) {
			panic(fmt.Sprintf("faultfs: %s: store into [%d, %d), which is in no block: on a full disk that is a fatal signal", path, a, b))
		}
	})
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// Write is counted, so that it can fail: a failed one has written half.
func (m *mapping) Write(off int64, p []byte) error {
	done, fault, err := m.f.begin(Op{Kind: OpWrite, Path: m.path, Off: off, Len: int64(len(p))}, true)
	if err != nil {
		return err
	}
	defer done()
	if err := m.check("write", off, int64(len(p))); err != nil {
		return err
	}
	if m.readOnly {
		return fmt.Errorf("write %s: %w", m.path, mappedfile.ErrReadOnly)
	}
	if fault != nil {
		p = p[:len(p)/2]
	}
	copy(m.n.mem[off:], p)
	m.n.eachPage(int(off), int(off)+len(p), func(p, _, _ int) { delete(m.n.dropped, p) })
	return fault
}

func (m *mapping) Allocate(off, n int64) error {
	done, fault, err := m.f.begin(Op{Kind: OpAllocate, Path: m.path, Off: off, Len: n}, true)
	if err != nil {
		return err
	}
	defer done()
	if err := m.check("allocate", off, n); err != nil {
		return err
	}
	if fault != nil {
		return fault
	}
	if n == 0 {
		return nil
	}
	if m.readOnly {
		return fmt.Errorf("allocate %s: %w", m.path, mappedfile.ErrReadOnly)
	}
	return m.f.take(m.n, m.path, int(off/pageSize), int((off+n+pageSize-1)/pageSize))
}

// Stored says that the range was stored to, for who stores the bytes that were there: its pages are dirty again, also those that a failed sync dropped.
func (m *mapping) Stored(off, n int64) {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	if m.f.mu.dead || m.check("store", off, n) != nil {
		return
	}
	m.n.eachPage(int(off), int(off+n), func(p, _, _ int) { delete(m.n.dropped, p) })
}

func (m *mapping) Populate(off, n int64) error { return m.quiet("populate", off, n) }

// Prewrite makes nothing durable: what it would write early, Crash may keep anyway.
func (m *mapping) Prewrite(off, n int64) error {
	done, fault, err := m.f.begin(Op{Kind: OpPrewrite, Path: m.path, Off: off, Len: n}, true)
	if err != nil {
		return err
	}
	defer done()
	if err := m.check("prewrite", off, n); err != nil {
		return err
	}
	return fault
}

func (m *mapping) Advise(_ mappedfile.Advice, off, n int64) error { return m.quiet("advise", off, n) }

func (m *mapping) quiet(what string, off, n int64) error {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	if m.f.mu.dead {
		return ErrDead
	}
	return m.check(what, off, n)
}

func (m *mapping) Close() error {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	if m.f.mu.dead {
		return ErrDead
	}
	if err := m.check("close", 0, 0); err != nil {
		return err
	}
	m.closed, m.b = true, nil
	m.n.maps--
	m.f.reclaim(m.n)
	return nil
}
