package mappedfile

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

const (
	warmStep       = 1 << 20   // populated at once
	warmMin        = 256 << 10 // smallest window
	prewriteStep   = 1 << 20   // populated and synced at once
	prewriteWindow = 16 << 20
	never          = math.MaxInt64
)

// pipeline is the one goroutine of a sequence: it makes the next file ahead, and faults in or writes the pages before the writer comes to them, so that the writer does neither.
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

	// The goroutine's own.
	lastPos  int64
	lastTime time.Time
	window   int64
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
	if p.warms() {
		p.wakeAt.Store(0)
		p.nudge()
	}
	p.advance(f, p.s.max.Load())
}

func (p *pipeline) warms() bool { return p.s.o.Populate > 0 || p.s.o.Prewrite }

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
	if err == nil && !p.s.o.Sparse {
		size := f.end - f.start
		head := min(p.windowNow(), max(size/16, warmStep), size)
		if werr := p.warm(f, head); werr != nil {
			_ = p.s.fail(werr)
		}
	}
	p.made <- made{f, err}
}

func (p *pipeline) windowNow() int64 {
	if p.s.o.Prewrite {
		return prewriteWindow
	}
	return max(p.window, min(warmStep, p.s.o.Populate))
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
	p.pace(pos)
	window := p.windowNow()
	limit := f.allocated.Load()
	target := min(max(pos-f.start, 0)+window, limit)
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
		return max(f.start+f.warm-window/2, pos+1)
	}
}

// pace sets the window to what the writer does in a second.
func (p *pipeline) pace(pos int64) {
	if p.s.o.Populate <= 0 {
		return
	}
	now := time.Now()
	if p.lastTime.IsZero() || pos < p.lastPos {
		p.window = min(warmStep, p.s.o.Populate)
	} else if d := now.Sub(p.lastTime); d > 0 {
		perSecond := float64(pos-p.lastPos) / d.Seconds()
		p.window = int64(min(max(perSecond, warmMin), float64(p.s.o.Populate)))
	}
	p.lastPos, p.lastTime = pos, now
}

// warm faults in, and for Prewrite writes, f up to the in-file position target. Only a failed sync is an error: its report may have been that of the writer's bytes.
func (p *pipeline) warm(f *file, target int64) error {
	step := int64(warmStep)
	if p.s.o.Prewrite {
		step = prewriteStep
	}
	for f.warm < target {
		select {
		case <-p.quit:
			return nil
		default:
		}
		n := min(step, target-f.warm)
		if p.s.o.Prewrite {
			if err := f.m.Prewrite(f.warm, n); err != nil {
				return fmt.Errorf("write ahead in %s: %w", p.s.o.Dir, err)
			}
		} else if f.m.Populate(f.warm, n) != nil {
			f.warm = int64(len(f.b)) // not possible here: the writer's stores fault, as they did before
			return nil
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
