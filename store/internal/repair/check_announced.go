package repair

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/mqstore/mqstore/commitlog"
)

// Announced is a truncation of the log that was announced and not finished: it was interrupted, and the next process that opens the store to write finishes it.
type Announced struct {
	File string // that says so, below the store's root, with slashes
	To   int64  // the physical offset; -1: the file holds none, with which no store of this engine opens
}

// Announced is the truncation that is announced in the store's quarantine/; nil: none is.
func (f *Files) Announced() (*Announced, error) {
	name := quarantineDir + "/" + announced
	info, err := fs.Stat(f.root, name)                                     // before it is read: a named pipe would wait for a writer
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // quarantine is a file: no store of ours put it there
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	const longest = 64 // an offset has 19 digits
	if !info.Mode().IsRegular() || info.Size() > longest {
		return &Announced{name, -1}, nil
	}
	b, err := fs.ReadFile(f.root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	to, err := strconv.ParseInt(strings.TrimSuffix(string(b), "\n"), 10, 64)
	if err != nil || to < 0 {
		to = -1
	}
	return &Announced{name, to}, nil
}

// EndsAnnounced reports whether a log was cut where it was for that an interrupted truncation had announced it ([Recovered].Reason).
func EndsAnnounced(reason error) bool { return errors.Is(reason, commitlog.ErrAnnounced) }

// announced tells a truncation that was announced and not finished.
func (c *check) announced() {
	if c.o.Live { // its process is at it
		return
	}
	a, err := (&Files{root: c.root}).Announced()
	switch name := quarantineDir + "/" + announced; {
	case err != nil:
		c.unreadable(name, err)
	case a == nil:
	case a.To < 0:
		c.report(inFile(UncleanExit, name, MendByHand, "a truncation of the log was announced here, but the file holds no physical offset, so that mqstore does not open the store: write the offset to which it was to be cut into the file, or remove it if none was under way; RocketMQ takes no notice of it"))
	case a.To >= c.end:
		c.report(at(UncleanExit, name, a.To, MendRecover, fmt.Sprintf("a truncation of the log to %d was announced and interrupted; the log ends at %d already. Recover, or opening the store, finishes it: it cuts queues and index to there", a.To, c.end)))
	default:
		c.report(at(UncleanExit, name, a.To, MendRecover, fmt.Sprintf("a truncation of the log to %d was announced and interrupted; the log still ends at %d. Recover, or opening the store, finishes it: it cuts what lies behind %[1]d, with whatever else is found there, and keeps it in quarantine/. If the log is whole and is not to be cut any more, move this file away first", a.To, c.end)))
	}
}
