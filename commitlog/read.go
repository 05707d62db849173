package commitlog

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

// View returns the size bytes at phyOffset: all below MaxPhyOffset and in one segment, else mappedfile.ErrNotFound. The caller releases it.
func (l *Log) View(phyOffset int64, size int) (mappedfile.View, error) {
	v, err := l.seq.View(phyOffset, size)
	return v, l.readError(err)
}

// Hold takes hold of the segment of the size bytes at phyOffset, which are all below MaxPhyOffset and in one segment, else mappedfile.ErrNotFound: for who reads many records. The caller releases it.
func (l *Log) Hold(phyOffset int64, size int) (mappedfile.Hold, error) {
	h, err := l.seq.Hold(phyOffset, size)
	return h, l.readError(err)
}

// ViewRest returns the bytes from phyOffset to the readable end of its segment; mappedfile.ErrNotFound outside the log. The caller releases it.
func (l *Log) ViewRest(phyOffset int64) (mappedfile.View, error) {
	v, err := l.seq.ViewRest(phyOffset)
	return v, l.readError(err)
}

func (l *Log) readError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, mappedfile.ErrClosed) {
		return ErrClosed
	}
	if l.seq.Err() != nil {
		l.flush.kickOff() // a read may be the first to find that what was appended cannot be written: the flusher tells everybody
	}
	return fmt.Errorf("read commit log [%d, %d): %w", l.MinPhyOffset(), l.MaxPhyOffset(), err)
}

// Message reads the record at phyOffset and checks it (sizes, CRC, stored offset). The message's bytes are those of the view, which
// is the record and which the caller releases.
//
// Errors: mappedfile.ErrNotFound outside the log; ErrNotARecord in the middle of a record and at a blank; ErrNotYet when the record
// is there only in part (a slave); *mappedfile.CorruptError for damage.
func (l *Log) Message(phyOffset int64) (*record.Message, mappedfile.View, error) {
	v, err := l.ViewRest(phyOffset)
	if err != nil {
		return nil, mappedfile.View{}, err
	}
	m, err := record.Decode(v.Bytes)
	switch {
	case err == nil && m.PhyOffset == phyOffset:
		v.Bytes = v.Bytes[:m.Size:m.Size]
		return m, v, nil
	case err == nil:
		err = l.explain(phyOffset, record.ErrPhyOffset)
	case errors.Is(err, record.ErrIncomplete):
		err = l.explainIncomplete(v.Bytes, phyOffset)
	default:
		if h, ok := peek(v.Bytes); ok && h.isBlank() && int64(h.size) == l.size-phyOffset%l.size {
			err = fmt.Errorf("%w: the segment ends at physical offset %d", ErrNotARecord, phyOffset)
		} else {
			err = l.explain(phyOffset, err)
		}
	}
	v.Release()
	return nil, mappedfile.View{}, err
}

// explainIncomplete says what a record is that b, which reaches to the readable end of its segment, holds only in part.
func (l *Log) explainIncomplete(b []byte, phyOffset int64) error {
	rest := l.size - phyOffset%l.size
	if len(b) >= record.BlankHeaderSize {
		if size, _ := peekSize(b); int64(size) > rest {
			return l.explain(phyOffset, fmt.Errorf("%w: a record of %d bytes where %d are left of the segment", record.ErrSize, size, rest))
		}
	}
	if int64(len(b)) == rest {
		return l.explain(phyOffset, fmt.Errorf("%w: too few bytes are left of the segment", record.ErrSize))
	}
	// The last bytes of the log's last record look like the beginning of one that is not there yet.
	if err := l.explain(phyOffset, record.ErrIncomplete); errors.Is(err, ErrNotARecord) {
		return err
	}
	return ErrNotYet
}

// StoreTime reads the store time, in ms, of the record of size bytes at phyOffset, and no more of it than says that it is one:
// ErrNotARecord if it is not, mappedfile.ErrNotFound outside the log.
func (l *Log) StoreTime(phyOffset int64, size int) (int64, error) {
	if size < minRecordSize {
		return 0, fmt.Errorf("%w: %d bytes at physical offset %d", ErrNotARecord, size, phyOffset)
	}
	v, err := l.View(phyOffset, size)
	if err != nil {
		return 0, err
	}
	defer v.Release()
	h, ok := peek(v.Bytes)
	if !ok || !h.isMessage() || h.phyOffset != phyOffset {
		return 0, fmt.Errorf("%w: %d bytes at physical offset %d", ErrNotARecord, size, phyOffset)
	}
	return h.storeTime, nil
}

// pathOf is the path of the segment that holds phyOffset.
func (l *Log) pathOf(phyOffset int64) string {
	return filepath.Join(l.o.Dir, segmentName(phyOffset-phyOffset%l.size))
}
