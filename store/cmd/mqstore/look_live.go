package main

import (
	"errors"
	"io"

	"github.com/mqstore/mqstore/store/internal/repair"
)

// logReader is what a verb needs of a log that it reads from one end to the other; see repair.LogReader.
type logReader interface {
	Next() (repair.Record, error)
	Offset() int64
	Close() error
}

// readLog reads from the first record at or behind phyOffset.
func (l *look) readLog(phyOffset int64) (logReader, error) {
	r, err := l.files.ReadLog(phyOffset)
	if err != nil || !l.live {
		return r, err
	}
	return &liveReader{r, l.files}, nil
}

// liveReader reads a log to which its process goes on to append. A file is read window by window, and a window page by page: where one record was half there when its page was read, the page behind it,
// or the next segment, may hold whole ones. So what looks like damage is read again; and what stays half there with nothing behind it is the record that is being written just now, at which the log ends.
type liveReader struct {
	*repair.LogReader
	files *repair.Files
}

// mostRereads of one place: the first may meet the record that is being written as the reading before it did, the second finds it whole if anything lies behind it.
const mostRereads = 3

func (r *liveReader) Next() (repair.Record, error) {
	for n := 0; ; n++ {
		at := r.Offset()
		rec, err := r.LogReader.Next()
		damage := (*repair.Damage)(nil)
		damaged := errors.As(err, &damage)
		switch {
		case !damaged && (err != nil || rec.CRC == nil):
			return rec, err
		case n == mostRereads && damaged && damage.To < 0:
			return repair.Record{}, io.EOF
		case n == mostRereads && !damaged && r.ends(rec.Meta.PhyOffset+int64(rec.Meta.Size)):
			return repair.Record{}, io.EOF
		case n == mostRereads:
			return rec, err
		}
		again, openErr := r.files.ReadLog(at)
		if openErr != nil {
			return rec, err
		}
		_ = r.LogReader.Close() // it was only read
		r.LogReader = again
	}
}

// ends reports whether no record lies at or behind phyOffset.
func (r *liveReader) ends(phyOffset int64) bool {
	behind, err := r.files.ReadLog(phyOffset)
	if err != nil {
		return false
	}
	defer behind.Close()
	_, err = behind.Next()
	damage := (*repair.Damage)(nil)
	return err == io.EOF || errors.As(err, &damage) && damage.To < 0
}
