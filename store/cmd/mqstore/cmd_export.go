package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mqstore/mqstore/store/internal/repair"
)

type exportCmd struct {
	storeArgs
	File  string `arg:"" name:"file.zst" help:"The archive to write; - is stdout."`
	From  int64  `name:"from" placeholder:"PHY" help:"From the first record at or behind this physical offset."`
	To    int64  `name:"to" placeholder:"PHY" default:"-1" help:"Records that begin below this physical offset."`
	Topic string `name:"topic" placeholder:"T" help:"Only this topic."`
	Queue *int32 `name:"queue" placeholder:"N" help:"Only this queue id."`
	Since when   `name:"since" placeholder:"TIME" help:"Stored at or after: milliseconds, RFC 3339, or a duration ago (-2h)."`
	Until when   `name:"until" placeholder:"TIME" help:"Stored before."`
	Force bool   `name:"force" help:"Replace the file if there is one."`
	jsonFlag
}

func (*exportCmd) Help() string {
	return "Writes the records of the log as an archive that mqstore import makes a store of: JSON Lines, compressed with zstd (zstd -dc FILE.zst | jq reads it), a line for each record with all that its bytes say, bodies as they are stored, and at the end counts and a checksum, so that a cut archive is noticed. " +
		"Reads the store as it lies, around damage: what does not verify is named on stderr and left out, and gives exit code 1; so is a record of more than 32 MiB (eight times RocketMQ's default maxMessageSize), which mqstore salvage copies into another store. The file appears under its name when it is whole."
}

func (*exportCmd) Examples() string {
	return "  mqstore export /data/store store.zst\n  mqstore export --topic orders --since -24h /data/store orders.zst\n  mqstore export /data/store - | ssh other mqstore import - /data/copy"
}

func (c *exportCmd) Validate() error {
	if c.To == 0 {
		return usage("--to 0: no record begins below it")
	}
	d := dumpCmd{From: c.From, To: c.To, Queue: c.Queue, Since: c.Since, Until: c.Until}
	return d.Validate()
}

func (c *exportCmd) Run(e *env) error {
	l, err := e.look(c.storeArgs)
	if err != nil {
		return err
	}
	defer l.close()
	out, err := c.create(e)
	if err != nil {
		return err
	}
	bar := e.progress(false)
	defer bar.end()
	o := repair.ExportOptions{From: c.From, To: max(c.To, 0), Topic: c.Topic, Queue: c.Queue, Since: c.Since.ms(-1 << 63), Until: c.Until.ms(0), Live: l.live, Progress: bar.at, Now: now}
	o.Damaged = func(err error) {
		bar.end()
		fmt.Fprintf(e.stderr, "mqstore: left out: %s\n", printable(err.Error()))
	}
	began := time.Now()
	totals, err := repair.Export(e.ctx, l.files, out, o)
	bar.end()
	if err = out.finish(err); err != nil {
		return explain(c.Dir, err)
	}
	seconds := time.Since(began).Seconds()
	tell := e.printf
	if c.File == "-" { // which stdout is taken by
		tell = func(format string, args ...any) { fmt.Fprintf(e.stderr, format, args...) }
	}
	if c.JSON {
		if err := e.json(madeJSON{Records: &totals.Records, Bytes: &totals.Bytes, Seconds: seconds}); err != nil {
			return err
		}
	} else {
		tell("exported %s (%s) to %s in %s\n", count(totals.Records, "record", "records"), size(totals.Bytes), c.File, rounded(seconds))
	}
	if totals.Damaged > 0 {
		return nothing("%s left out, named above; the archive is sound and has the other records", count(totals.Damaged, "damaged place was", "damaged places were"))
	}
	return nil
}

func rounded(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
}

// archiveFile is a file that gets its name when it is whole.
type archiveFile struct {
	io.Writer
	f    *os.File // nil: stdout
	path string
	temp string
}

// create begins the archive. Nothing may lie in the store's own directory: a verb that looks does not write there.
func (c *exportCmd) create(e *env) (*archiveFile, error) {
	if c.File == "-" {
		if c.JSON {
			return nil, usage("--json needs stdout, which - takes for the archive")
		}
		if isTerminal(e.stdout) {
			return nil, usage("stdout is a terminal, an archive is not to be read there: give a file, or a pipe behind -")
		}
		return &archiveFile{Writer: e.out}, nil
	}
	if err := outside(c.Dir, c.File); err != nil {
		return nil, err
	}
	if info, err := os.Stat(c.File); err == nil && (!c.Force || !info.Mode().IsRegular()) {
		return nil, fmt.Errorf("%s exists already: give another name, or --force for a file", c.File)
	}
	a := &archiveFile{path: c.File, temp: c.File + ".partial"}
	f, err := os.OpenFile(a.temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: the directory of the archive must exist", err)
	}
	if err != nil {
		return nil, err
	}
	a.f, a.Writer = f, f
	return a, nil
}

// finish gives the file its name, or removes it after an error.
func (a *archiveFile) finish(err error) error {
	if a.f == nil {
		return err
	}
	if err == nil {
		err = a.f.Sync()
	}
	err = errors.Join(err, a.f.Close())
	if err == nil {
		err = os.Rename(a.temp, a.path)
	}
	if err != nil {
		os.Remove(a.temp)
	}
	return err
}

// outside refuses a file within a store's directory.
func outside(dir, file string) error {
	resolved := func(p string) string {
		if abs, err := filepath.Abs(p); err == nil {
			p = abs
		}
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return real
		}
		return p
	}
	rel, err := filepath.Rel(resolved(dir), filepath.Join(resolved(filepath.Dir(file)), filepath.Base(file)))
	if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return fmt.Errorf("%s lies in the store's directory, where nothing is written: give a file elsewhere", file)
	}
	return nil
}
