package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progressAfter is how long work may take before a bar is drawn.
const progressAfter = time.Second

// progress draws how far a piece of work is, with rate and time left, on a terminal and only when it takes more than a second.
// A nil *progress draws nothing.
type progress struct {
	w     io.Writer
	now   func() time.Time
	start time.Time
	stage string
	bar   *progressbar.ProgressBar
}

// progress is nil where no bar may be drawn: stderr is no terminal, or rows that come meanwhile share it.
func (e *env) progress(rows bool) *progress {
	if !isTerminal(e.stderr) || rows && isTerminal(e.stdout) {
		return nil
	}
	return &progress{w: e.stderr, now: time.Now}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// at says that done of total bytes of a stage are done. Its shape is that of store.Options.Progress.
func (p *progress) at(stage string, done, total int64) {
	if p == nil {
		return
	}
	t := p.now()
	if stage != p.stage {
		p.end()
		p.stage, p.start = stage, t
	}
	if p.bar == nil {
		if t.Sub(p.start) < progressAfter {
			return
		}
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.w),
			progressbar.OptionSetDescription(stage),
			progressbar.OptionShowBytes(true),
			progressbar.OptionUseIECUnits(true),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	_ = p.bar.Set64(min(done, total))
}

// end clears the bar.
func (p *progress) end() {
	if p == nil || p.bar == nil {
		return
	}
	_ = p.bar.Clear()
	p.bar = nil
}
