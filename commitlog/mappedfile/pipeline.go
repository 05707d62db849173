package mappedfile

import (
	"fmt"
	"math"
	"sync/atomic"
)

const (
	prewriteStep   = 1 << 20 // populated and synced at once
	prewriteWindow = 16 << 20
	never          = math.MaxInt64
)

// pipeline is the one goroutine of a sequence: it makes the next file ahead, and writes the pages before the writer comes to them, so that the writer does neither.
type pipeline struct {
	s       *Sequence
	wanted  chan int64 // start of a file to make; at most one is under way
	made    chan made
	poke    chan struct{}
	quit    chan struct{}
	done    chan struct{}
	current atomic.Pointer[file]
	wakeAt  atomic.Int64 // the writer pokes when it publishes beyond

	// The writer's own.
	asked   int64 // start of the file under way; -1 = none
	aheadAt int64 // ask for the next file when publishing beyond
}

type made struct {
	f   *file
	err error
}

func startPipeline(s *Sequence) *pipeline {
	p := &pipeline{
		s: s, wanted: make(chan int64, 1), made: make(chan made, 1), poke: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan struct{}), asked: -1, aheadAt: never,
	}
	p.wakeAt.Store(never)
	go p.run()
	return p
}

// follow tells the pipeline that f is current now.
func (p *pipeline) follow(f *file) {
	p.aheadAt = never
	if p.s.o.Ahead {
		p.aheadAt = f.start + (f.end-f.start)/2
	}
	p.current.Store(f)
	if p.s.o.Prewrite {
		p.wakeAt.Store(0)
		p.nudge()
	}
	p.advance(f, p.s.max.Load())
}

// advance is Publish's part: two comparisons, unless there is something to do.
func (p *pipeline) advance(f *file, end int64) {
	if end >= p.aheadAt {
		p.aheadAt = never
		if p.asked < 0 {
			p.asked = f.end
			p.wanted <- f.end
		}
	}
	if at := p.wakeAt.Load(); end >= at && p.wakeAt.CompareAndSwap(at, never) {
		p.nudge()
	}
}

func (p *pipeline) nudge() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// take waits for the file under way, and returns it if it starts at start, or whatever it is if start is negative. nil: there is none, or it could not be made: make it, and get the error of now.
func (p *pipeline) take(start int64) *file {
	if start < 0 {
		p.aheadAt = never
		p.current.Store(nil)
	}
	if p.asked < 0 {
		return nil
	}
	m := <-p.made
	p.asked = -1
	if m.err != nil {
		return nil
	}
	if start >= 0 && m.f.start != start {
		panic(fmt.Sprintf("mappedfile: made %s, not the file at %d", m.f.path, start))
	}
	return m.f
}

// stop ends the goroutine. Whatever it made was taken before.
func (p *pipeline) stop() {
	close(p.quit)
	<-p.done
}

func (p *pipeline) run() {
	defer close(p.done)
	for {
		select {
		case <-p.quit:
			return
		case start := <-p.wanted:
			p.makeNext(start)
		case <-p.poke:
			p.warmUp()
		}
	}
}

func (p *pipeline) makeNext(start int64) {
	f, err := p.s.create(start)
	if err == nil && p.s.o.Prewrite && !p.s.o.Sparse {
		size := f.end - f.start
		head := min(prewriteWindow, max(size/16, prewriteStep), size)
		if werr := p.warm(f, head); werr != nil {
			_ = p.s.fail(werr)
		}
	}
	p.made <- made{f, err}
}

// warmUp brings the window ahead of the writer up to date, until the writer stays in one file meanwhile.
func (p *pipeline) warmUp() {
	for {
		f := p.current.Load()
		if f == nil || !f.acquire() {
			return
		}
		next := p.warmFile(f)
		f.release()
		p.wakeAt.Store(next)
		if p.current.Load() == f {
			if p.s.max.Load() >= next && p.wakeAt.CompareAndSwap(next, never) {
				continue
			}
			return
		}
	}
}

// warmFile warms f ahead of the writer and returns at which offset to be called again.
func (p *pipeline) warmFile(f *file) (wakeAt int64) {
	pos := p.s.max.Load()
	limit := f.allocated.Load()
	target := min(max(pos-f.start, 0)+prewriteWindow, limit)
	f.warm = max(f.warm, max(pos-f.start, 0)&^(pageSize-1))
	if err := p.warm(f, target); err != nil {
		_ = p.s.fail(err)
		return never
	}
	switch {
	case f.warm >= int64(len(f.b)):
		return never
	case f.warm >= limit: // no further than there are blocks: the writer allocates when it comes there
		return max(f.start+limit, pos) + 1
	default:
		return max(f.start+f.warm-prewriteWindow/2, pos+1)
	}
}

// warm writes f up to the in-file position target. An error is a failed sync: its report may have been that of the writer's bytes.
func (p *pipeline) warm(f *file, target int64) error {
	for f.warm < target {
		select {
		case <-p.quit:
			return nil
		default:
		}
		n := min(prewriteStep, target-f.warm)
		if err := f.m.Prewrite(f.warm, n); err != nil {
			return fmt.Errorf("write ahead in %s: %w", p.s.o.Dir, err)
		}
		f.warm += n
		select {
		case start := <-p.wanted:
			p.makeNext(start)
		default:
		}
	}
	return nil
}
