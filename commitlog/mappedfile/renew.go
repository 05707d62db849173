package mappedfile

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	renewStep    = 4 << 20 // what is compared at a time
	renewReaders = 2       // a device is faster at two reads than at one
)

// Renew syncs, and then reads what it synced past the page cache: that the device has it is worth more than that a second write did not fail, and half as much work.
// Where the file system has no such reads every page is stored to, as it is, and synced.
func (m *osMapping) Renew(off, n int64) error {
	if err := m.Sync(off, n); err != nil || n == 0 || m.readOnly {
		return err
	}
	d, err := m.openDevice()
	if err != nil {
		return m.rewrite(off, n)
	}
	defer d.close()
	start := off &^ (pageSize - 1)
	step := min(renewStep, (off+n-start+pageSize-1)&^(pageSize-1))
	var next atomic.Int64
	next.Store(start)
	compare := func() error {
		buf := alignedBuffer(step)
		for {
			at := next.Add(step) - step
			from, to := max(at, off), min(at+step, off+n)
			if from >= to {
				return nil
			}
			if !d.holds(buf, at, from, m.Bytes()[from:to]) {
				if err := m.rewrite(from, to-from); err != nil {
					return err
				}
			}
			m.letGo(from, to)
		}
	}
	if start+step >= off+n {
		return compare()
	}
	var errs [renewReaders]error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = compare() })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// rewrite makes every page of the range dirty as it is, and syncs it.
func (m *osMapping) rewrite(off, n int64) error {
	if err := m.Allocate(off, n); err != nil { // a store into a hole may be one too many for the disk
		return err
	}
	for end := off + n; off < end; {
		to := min(end, (off+rewriteStep)&^(rewriteStep-1))
		b, err := m.pages("write again", off, to-off)
		if err != nil {
			return err
		}
		touch(b)
		if err := m.Sync(off, to-off); err != nil {
			return fmt.Errorf("write again: %w", err)
		}
		m.letGo(off, to)
		off = to
	}
	return nil
}

const rewriteStep = 32 << 20 // pages that are dirty at a time

// touch makes the pages of b, which begins at one, dirty as they are.
func touch(b []byte) {
	for i := 0; i < len(b); i += zeroStep {
		// Not a store of what was read: somebody may store another byte in between. The first word of a page lies in the mapping whatever the file's length is.
		atomic.OrUint32((*uint32)(unsafe.Pointer(&b[i])), 0)
	}
}

// letGo releases the whole pages in [from, to).
func (m *osMapping) letGo(from, to int64) {
	from, to = (from+pageSize-1)&^(pageSize-1), to&^(pageSize-1)
	if from < to {
		_ = m.Advise(AdviceRelease, from, to-from)
	}
}

// alignedBuffer is n bytes that begin at a page.
func alignedBuffer(n int64) []byte {
	b := make([]byte, n+pageSize)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & int(pageSize-1)
	return b[skip:][:n:n]
}

// holds reports whether the device has want, which begins at from, where buf is filled from at on.
func (d device) holds(buf []byte, at, from int64, want []byte) bool {
	n, err := d.read(buf, at)
	skip := int(from - at)
	return err == nil && n >= skip+len(want) && bytes.Equal(buf[skip:skip+len(want)], want)
}
