package repair

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mqstore/mqstore/commitlog/record"
)

// An archive is JSON Lines, compressed with zstd: records with everything that their bytes say, so that a store made of it has the same ones.
//
//	{"archive":"mqstore","version":1,"segmentSize":…,"multiDispatch":…,"exported":…}   the header
//	{"phyOffset":…,"size":…,"queueId":…, … ,"body":"…"}                                one a record, in the log's order: see archiveRecord
//	{"end":true,"records":…,"bytes":…,"damaged":…,"crc32c":"…"}                        the trailer: an archive without it was cut
//
// The CRC is that of all lines before the trailer, newlines included.
const (
	archiveName    = "mqstore"
	archiveVersion = 1
)

type archiveHeader struct {
	Archive       string `json:"archive"`
	Version       int    `json:"version"`
	SegmentSize   int64  `json:"segmentSize"`
	MultiDispatch bool   `json:"multiDispatch"` // the store had queues that INNER_MULTI_DISPATCH names
	Exported      int64  `json:"exported"`      // ms
}

type archiveTrailer struct {
	End     bool   `json:"end"`
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"`   // of the records in the log
	Damaged int64  `json:"damaged"` // places that were left out since they did not verify
	CRC32C  string `json:"crc32c"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ExportOptions say which records go into an archive. The zero value takes all.
type ExportOptions struct {
	From  int64  // records that begin at or behind this physical offset
	To    int64  // and below this one; 0: all
	Topic string // of this topic only; "": all
	Queue *int32 // of this queue id only
	Since int64  // stored at or after, ms
	Until int64  // and before, ms; 0: all

	Live     bool                       // a process has the store open: what is being written at the log's end is no damage
	Damaged  func(error)                // each place that does not verify and is left out; may be nil
	Progress func(string, int64, int64) // bytes of the log read, stage "export"; may be nil
	Now      func() time.Time           // for the header; nil: time.Now
}

// Totals is what a verb went through.
type Totals struct {
	Records, Units, Keys, Bytes int64
	Damaged                     int64 // places that did not verify and were left out
}

// Export writes records that verify as an archive to w. It reads the store as it lies, around damage, in memory that one record bounds. What it leaves out for not verifying is told to o.Damaged and
// counted: the archive is sound all the same. An error of w ends it, and leaves w with an archive that Import refuses as cut.
func Export(ctx context.Context, f *Files, w io.Writer, o ExportOptions) (t Totals, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	r, err := f.ReadLog(o.From)
	if err != nil {
		return t, err
	}
	defer r.Close()
	r.longAside = true
	queues, err := f.Queues()
	if err != nil {
		queues = nil // a finding of others: the log is what is archived
	}
	multi, err := f.manyDispatch(queues)
	if err != nil {
		return t, err
	}
	a, err := newArchiveWriter(w)
	if err != nil {
		return t, err
	}
	defer a.abandon()
	if err := a.header(archiveHeader{archiveName, archiveVersion, f.SegmentSize(), multi, o.Now().UnixMilli()}); err != nil {
		return t, err
	}
	damaged := func(err error) {
		t.Damaged++
		if o.Damaged != nil {
			o.Damaged(err)
		}
	}
	begin, end := r.Offset(), lastEnd(f)
	if o.To > 0 {
		end = min(end, o.To)
	}
	for n := 0; ; n++ {
		if n%64 == 0 {
			if err := ctx.Err(); err != nil {
				return t, err
			}
			if o.Progress != nil {
				o.Progress("export", r.Offset()-begin, end-begin)
			}
		}
		if r.Offset() >= end {
			break
		}
		rec, err := r.Next()
		if d := (*Damage)(nil); errors.As(err, &d) {
			if !o.Live || d.To >= 0 {
				damaged(d)
			}
			continue
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return t, err
		}
		m := &rec.Meta
		if m.PhyOffset >= end {
			break
		}
		if o.Topic != "" && m.Topic != o.Topic || o.Queue != nil && m.QueueID != *o.Queue || m.StoreTimestamp < o.Since || o.Until > 0 && m.StoreTimestamp >= o.Until {
			continue
		}
		if rec.CRC == nil && m.Size > maxArchived {
			rec.CRC = fmt.Errorf("its %d bytes are more than a record of an archive has, %d: mqstore salvage copies it into another store", m.Size, maxArchived)
		}
		if rec.CRC != nil {
			damaged(fmt.Errorf("record at physical offset %d: %w", m.PhyOffset, rec.CRC))
			continue
		}
		if err := a.record(rec.Message); err != nil {
			return t, err
		}
		t.Records++
		t.Bytes += int64(len(rec.Bytes))
	}
	return t, a.close(archiveTrailer{End: true, Records: t.Records, Bytes: t.Bytes, Damaged: t.Damaged})
}

// maxArchived bounds a record in an archive, and so what a hostile archive can make Import hold. RocketMQ's records have 4 MiB and 64 KiB at most unless maxMessageSize was raised
// (spec/commitlog-format.md 2), which has no bound of its own but the segment: this is eight times the default.
const maxArchived = 32 << 20

// archiveWriter writes the lines.
type archiveWriter struct {
	z    *zstd.Encoder
	w    *bufio.Writer
	crc  uint32
	line []byte
	done bool
}

func newArchiveWriter(w io.Writer) (*archiveWriter, error) {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(min(runtime.GOMAXPROCS(0), 4)))
	if err != nil {
		return nil, err
	}
	return &archiveWriter{z: z, w: bufio.NewWriterSize(z, 256<<10)}, nil
}

func (a *archiveWriter) put(line []byte) error {
	a.crc = crc32.Update(a.crc, castagnoli, line)
	_, err := a.w.Write(line)
	return err
}

func (a *archiveWriter) header(h archiveHeader) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return a.put(append(b, '\n'))
}

func (a *archiveWriter) record(m *record.Message) error {
	a.line = append(appendArchived(a.line[:0], m), '\n')
	return a.put(a.line)
}

// close writes the trailer and ends the stream.
func (a *archiveWriter) close(t archiveTrailer) error {
	t.CRC32C = fmt.Sprintf("%08x", a.crc)
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := a.put(append(b, '\n')); err != nil {
		return err
	}
	if err := a.w.Flush(); err != nil {
		return err
	}
	a.done = true
	return a.z.Close()
}

// abandon frees what an archive that was not closed holds; it stays without a trailer.
func (a *archiveWriter) abandon() {
	if !a.done {
		a.z.Reset(io.Discard)
		a.z.Close()
	}
}

// ArchiveError says which line of an archive cannot be, and why.
type ArchiveError struct {
	Line int64 // from 1; of the decompressed text
	Err  error
}

func (e *ArchiveError) Error() string { return fmt.Sprintf("archive, line %d: %v", e.Line, e.Err) }
func (e *ArchiveError) Unwrap() error { return e.Err }

// ErrArchive: what is imported is no archive, or not a whole one.
var ErrArchive = errors.New("not a whole archive")
