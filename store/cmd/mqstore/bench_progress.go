package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// benchBar shows on a terminal what is measured, and how much time is left. A nil one shows nothing.
type benchBar struct {
	bar *progressbar.ProgressBar
}

func (e *env) benchBar(total time.Duration) *benchBar {
	if !isTerminal(e.stderr) || total < progressAfter {
		return nil
	}
	return &benchBar{progressbar.NewOptions64(total.Milliseconds(),
		progressbar.OptionSetWriter(e.stderr),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

func (b *benchBar) stage(name string) {
	if b != nil {
		b.bar.Describe(name)
	}
}

func (b *benchBar) add(d time.Duration) {
	if b != nil {
		_ = b.bar.Add64(d.Milliseconds())
	}
}

func (b *benchBar) end() {
	if b != nil {
		_ = b.bar.Clear()
	}
}
