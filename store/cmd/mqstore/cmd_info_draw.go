package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/mqstore/mqstore/store/internal/repair"
)

// Validate refuses two results in one stream.
func (c *infoCmd) Validate() error {
	if (c.SVG == "-" || c.HTML == "-") && c.JSON || c.SVG == "-" && c.HTML == "-" {
		return usage("--svg - and --html - need stdout for themselves")
	}
	return nil
}

// draw writes the pictures that were asked for.
func (c *infoCmd) draw(l *look) error {
	for _, f := range []string{c.SVG, c.HTML} {
		if f == "" || f == "-" {
			continue
		}
		if err := outside(c.Dir, f); err != nil {
			return err
		}
	}
	bar := l.e.progress(false)
	defer bar.end()
	name := c.Dir
	if abs, err := filepath.Abs(c.Dir); err == nil {
		name = abs
	}
	p, err := repair.Draw(l.e.ctx, l.files, repair.PictureOptions{Name: name, Live: l.live, Dir: c.Dir, Progress: bar.at})
	if err != nil {
		return explain(c.Dir, err)
	}
	bar.end()
	if c.SVG != "" {
		if err := l.e.picture(c.SVG, p.SVG); err != nil {
			return err
		}
	}
	if c.HTML != "" {
		return l.e.picture(c.HTML, p.HTML)
	}
	return nil
}

// picture writes to a file, which has its name when it is whole, or to stdout.
func (e *env) picture(path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(e.out)
	}
	temp := path + ".partial"
	f, err := os.Create(temp)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if err = errors.Join(write(w), w.Flush(), f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
		return err
	}
	e.note("drawn: %s", path)
	return nil
}
