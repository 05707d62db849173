package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// quarantine keeps b, which lies at physical offset off and is about to be cut, and returns the file that holds it, durably. A
// file is named by offset and content (commitlog-<offset>-<CRC-32>.bin), so that doing it again after a crash neither loses nor
// doubles anything, and other bytes of the same place go beside.
func quarantine(o *Options, off int64, b []byte) (string, error) {
	if err := o.FS.MkdirAll(o.QuarantineDir); err != nil {
		return "", fmt.Errorf("keep what is cut at %d: nothing was cut: %w", off, err)
	}
	path, kept, err := quarantinePath(o, off, b)
	if err == nil && !kept {
		err = o.FS.WriteFileDurable(path, b)
	}
	if err != nil {
		return "", fmt.Errorf("keep what is cut at %d: nothing was cut: %w", off, err)
	}
	return path, nil
}

// quarantinePath is the file for b, which lies at off, and whether it has it already.
func quarantinePath(o *Options, off int64, b []byte) (path string, kept bool, err error) {
	base := fmt.Sprintf("commitlog-%s-%08x", segmentName(off), crc32.ChecksumIEEE(b))
	for n := 1; ; n++ {
		name := base + ".bin"
		if n > 1 {
			name = fmt.Sprintf("%s-%d.bin", base, n)
		}
		path := filepath.Join(o.QuarantineDir, name)
		info, err := o.FS.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return path, false, nil
		case err != nil:
			return "", false, err
		case info.Regular && info.Size == int64(len(b)):
			same, err := holds(o.FS, path, b)
			if err != nil || same {
				return path, same, err
			}
		}
	}
}

// Remains lists the files in which Open would keep what lies at or beyond end, were that where it finds the log's end. Nothing is written.
func Remains(o Options, end int64) ([]string, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	segments, size, _, err := listSegments(&o)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, seg := range slices.Backward(segments) {
		if seg.start+size <= end {
			break
		}
		path, err := remainsOf(&o, seg, size, end)
		if err != nil {
			return nil, err
		}
		if path != "" {
			files = append(files, path)
		}
	}
	return files, nil
}

func remainsOf(o *Options, seg segment, size, end int64) (string, error) {
	m, err := o.FS.Map(seg.path, size, mappedfile.MapReadOnly)
	if err != nil {
		return "", err
	}
	defer m.Close()
	from := max(end-seg.start, 0)
	b := m.Bytes()[from:max(from, mappedfile.DataEnd(m, from))]
	if b = b[:lastNonZero(b)]; len(b) == 0 {
		return "", nil
	}
	path, _, err := quarantinePath(o, seg.start+from, b)
	return path, err
}

// holds reports whether the file at path, as long as b, has its bytes.
func holds(fsys mappedfile.FS, path string, b []byte) (bool, error) {
	m, err := fsys.Map(path, 0, mappedfile.MapReadOnly)
	if err != nil {
		return false, err
	}
	same := bytes.Equal(m.Bytes(), b)
	return same, m.Close()
}

// An interrupted truncation of durable records can not be told from damage: a part is cut, whole records lie behind. And when the sync of
// what erases them failed, the next process reads zeros that the device does not have. So a marker with its offset is there while
// anything is cut, and Open finishes what it finds.
const markerName = "commitlog-truncate-to"

func markerPath(o *Options) string { return filepath.Join(o.QuarantineDir, markerName) }

// Announced returns the physical offset of a truncation that is announced in o.QuarantineDir and was interrupted: Open finishes it there, whatever
// Recovery says. -1 = there is none. A file that holds no offset is a *mappedfile.CorruptError. Nothing is written.
func Announced(o Options) (phyOffset int64, err error) {
	if o, err = o.withDefaults(); err != nil {
		return -1, err
	}
	return readMarker(&o)
}

// readMarker returns the offset of an interrupted truncation; -1 = there is none.
func readMarker(o *Options) (int64, error) {
	b, err := o.FS.ReadFile(markerPath(o))
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("recover commit log: %w", err)
	}
	off, err := strconv.ParseInt(strings.TrimSuffix(string(b), "\n"), 10, 64)
	if err != nil || off < 0 {
		return -1, &mappedfile.CorruptError{Path: markerPath(o), Err: errors.New("it should hold the physical offset to which the log was being truncated: " +
			"write that offset into it, or remove it if no truncation was under way")}
	}
	return off, nil
}

func writeMarker(o *Options, off int64) error {
	err := o.FS.MkdirAll(o.QuarantineDir)
	if err == nil {
		err = o.FS.WriteFileDurable(markerPath(o), []byte(strconv.FormatInt(off, 10)+"\n"))
	}
	if err != nil {
		return fmt.Errorf("announce truncation to %d: %w", off, err)
	}
	return nil
}

func removeMarker(o *Options) error {
	err := o.FS.Remove(markerPath(o))
	if err == nil {
		err = o.FS.SyncDir(o.QuarantineDir)
	}
	if err != nil {
		return fmt.Errorf("truncation is done, its marker is still there: %w", err)
	}
	return nil
}
