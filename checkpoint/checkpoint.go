package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// The checkpoint file is one page of big-endian numbers (RocketMQ 4.9.8; the last two 5.3.3, zero in older files):
//
//	0         8         16        24        32        40                  4096
//	+---------+---------+---------+---------+---------+-------------------+
//	| physic  | logics  | index   | master  | confirm | of later versions |
//	| msgTime | msgTime | msgTime | flushed | phyOff  | kept as found     |
//	+---------+---------+---------+---------+---------+-------------------+
const (
	posPhysic        = 0
	posLogics        = 8
	posIndex         = 16
	posMasterFlushed = 24
	posConfirm       = 32
	endOfFields      = 40

	pageSize = 4096

	pageName = "checkpoint"
)

// safety is how much earlier than a checkpoint's times recovery starts: RocketMQ's margin for times that were noted before the sync.
const safety = 3000 // ms

// maxTimestamp is the end of the year 9999: a later time is damage.
const maxTimestamp = 253402300799999

// Page is the checkpoint file's fields: store times in ms of what each file family is known to hold durably, 0 = nothing known.
// The page has no checksum: a wrong but possible time cannot be seen here. Who has a Summary that still fits the log should believe that instead.
type Page struct {
	PhysicMsgTimestamp  int64 // the commit log
	LogicsMsgTimestamp  int64 // the consume queues
	IndexMsgTimestamp   int64 // RocketMQ's index files
	MasterFlushedOffset int64 // 5.3.3; physical offset
	ConfirmPhyOffset    int64 // 5.3.3
}

// MinTimestamp is the store time (ms) up to which log and queues are both durable, less a margin of 3 s; 0 = nothing is known.
func (p Page) MinTimestamp() int64 {
	return max(0, min(p.PhysicMsgTimestamp, p.LogicsMsgTimestamp)-safety)
}

// Path is the checkpoint file's place in a store's root.
func Path(root string) string { return filepath.Join(root, pageName) }

// Read reads the checkpoint at path. A missing file is the zero page.
// A file of another length than 4096 bytes, or with impossible numbers, is the zero page and a *mappedfile.CorruptError: callers may go on with the zero page.
func Read(fsys mappedfile.FS, path string) (Page, error) {
	b, err := readSmall(fsys, path, pageSize)
	if err != nil || b == nil {
		return Page{}, err
	}
	p, err := decodePage(b)
	if err != nil {
		return Page{}, &mappedfile.CorruptError{Path: path, Err: err}
	}
	return p, nil
}

// Write makes p the checkpoint at path, durably: after a crash it is the old page or this one. Bytes beyond the fields stay as they were.
// A p that Read would refuse is an error and nothing is written.
func Write(fsys mappedfile.FS, path string, p Page) error {
	if err := p.check(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	b := make([]byte, pageSize)
	old, err := readSmall(fsys, path, pageSize)
	if err != nil && !errors.Is(err, mappedfile.ErrCorrupt) {
		return err
	}
	copy(b, old)
	p.encode(b)
	return fsys.WriteFileDurable(path, b)
}

// ParsePage is Read for bytes that were read otherwise.
func ParsePage(b []byte) (Page, error) { return decodePage(b) }

func decodePage(b []byte) (Page, error) {
	if len(b) != pageSize {
		return Page{}, fmt.Errorf("the file is %d bytes long, a checkpoint is %d", len(b), pageSize)
	}
	p := Page{
		PhysicMsgTimestamp:  get64(b[posPhysic:]),
		LogicsMsgTimestamp:  get64(b[posLogics:]),
		IndexMsgTimestamp:   get64(b[posIndex:]),
		MasterFlushedOffset: get64(b[posMasterFlushed:]),
		ConfirmPhyOffset:    get64(b[posConfirm:]),
	}
	if err := p.check(); err != nil {
		return Page{}, err
	}
	return p, nil
}

// encode sets the fields of a whole page.
func (p Page) encode(b []byte) {
	put64(b[posPhysic:], p.PhysicMsgTimestamp)
	put64(b[posLogics:], p.LogicsMsgTimestamp)
	put64(b[posIndex:], p.IndexMsgTimestamp)
	put64(b[posMasterFlushed:], p.MasterFlushedOffset)
	put64(b[posConfirm:], p.ConfirmPhyOffset)
}

func (p Page) check() error {
	for _, f := range []struct {
		name     string
		v        int64
		min, max int64
	}{
		{"physicMsgTimestamp", p.PhysicMsgTimestamp, 0, maxTimestamp},
		{"logicsMsgTimestamp", p.LogicsMsgTimestamp, 0, maxTimestamp},
		{"indexMsgTimestamp", p.IndexMsgTimestamp, 0, maxTimestamp},
		{"masterFlushedOffset", p.MasterFlushedOffset, -1, maxOffset}, // -1: none
		{"confirmPhyOffset", p.ConfirmPhyOffset, -1, maxOffset},
	} {
		if f.v < f.min || f.v > f.max {
			return fmt.Errorf("%s is %d, which is impossible", f.name, f.v)
		}
	}
	return nil
}

// maxOffset bounds physical and queue offsets, so that sums of them with sizes do not overflow.
const maxOffset = 1<<62 - 1

// readSmall reads a file that is no longer than limit; nil if there is none. A longer one is damage: its length must not decide what is allocated.
func readSmall(fsys mappedfile.FS, path string, limit int64) ([]byte, error) {
	info, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Regular {
		return nil, fmt.Errorf("read %s: %w: move it away", path, mappedfile.ErrNotRegular)
	}
	if info.Size > limit {
		return nil, &mappedfile.CorruptError{Path: path, Off: limit, Err: fmt.Errorf("the file is %d bytes long, at most %d are possible", info.Size, limit)}
	}
	b, err := fsys.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

func get64(b []byte) int64    { return int64(binary.BigEndian.Uint64(b)) }
func put64(b []byte, v int64) { binary.BigEndian.PutUint64(b, uint64(v)) }
