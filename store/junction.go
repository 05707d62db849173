package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/ha"
)

// junction is where this log ends and the bytes of a new connection follow it. The classic protocol says nothing of what lies below: a log that went another way, as that of an old master which was
// ahead, shows only by what the master has there, which is seldom the beginning of a record for just that place. The original appends it. It belongs to the slave's goroutine.
type junction struct {
	open bool // nothing, or too little to tell, has come
	at   int64
	head []byte // of what came
}

// begin is for a connection; whole: the log ends where a record does, so that another one must follow.
func (j *junction) begin(whole bool) { *j = junction{open: whole} }

// fits looks at bytes before they are appended.
func (j *junction) fits(phyOffset int64, p []byte, segmentSize int64) error {
	const (
		posMagic     = 4
		posPhyOffset = 28
		enough       = 36
	)
	if !j.open || len(p) == 0 {
		return nil
	}
	if len(j.head) == 0 {
		j.at = phyOffset
	}
	j.head = append(j.head, p[:min(len(p), enough-len(j.head))]...)
	if len(j.head) < record.BlankHeaderSize {
		return nil
	}
	size := int64(int32(binary.BigEndian.Uint32(j.head)))
	rest := segmentSize - j.at%segmentSize
	switch binary.BigEndian.Uint32(j.head[posMagic:]) {
	case record.MagicBlank:
		if size == rest {
			j.open = false
			return nil
		}
	case record.MagicV1, record.MagicV2:
		if size < enough || size > rest {
			break
		}
		if len(j.head) < enough {
			return nil
		}
		if int64(binary.BigEndian.Uint64(j.head[posPhyOffset:])) == j.at {
			j.open = false
			return nil
		}
	}
	return fmt.Errorf("%w: at physical offset %d, where this log ends, the master has no record for that place, but % x: the two went different ways before it, or the master's is damaged there (mqstore diff finds where they part). If the master is right, "+
		"stop the slave, cut its log there (mqstore truncate --to, which keeps what it cuts in quarantine/), and start it; or stop it, move its directory aside, and start it with an empty one, to resync, or with a copy of the master's", ErrDiverged, j.at, j.head)
}

// unframed is err without the piece of the master's bytes that it happened to, which differs each time.
func unframed(err error) error {
	var a *ha.AppendError
	if errors.As(err, &a) && errors.Is(a.Err, ErrDiverged) {
		return a.Err
	}
	return err
}
