package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// checkTables looks at the format that each table says it has. It is the one thing in a table that no checksum covers, and where it is another one Pebble takes blocks for what they are not: a query panics, and a compaction, in
// the background, where nobody can catch that. All tables of an index are of its first format or later ones.
func (d *database) checkTables(on vfs.FS, dir string) error {
	magic, least := pebbleFormat.MaxTableFormat().AsTuple()
	levels, err := d.SSTables()
	if err != nil {
		return classify(err)
	}
	for _, tables := range levels {
		for _, t := range tables {
			name := fmt.Sprintf("%06d.sst", uint64(t.BackingSSTNum))
			end := make([]byte, 4+len(magic)) // of the footer: version and magic
			err := readEnd(on, on.PathJoin(dir, name), end)
			if errors.Is(err, fs.ErrNotExist) {
				continue // compacted away meanwhile: Open looked whether all are there
			}
			if err != nil {
				return classify(fmt.Errorf("%s: %w", name, err))
			}
			if v := binary.LittleEndian.Uint32(end); string(end[4:]) != magic || v < least {
				return damaged(fmt.Errorf("%s: a table of format %d; ours have %d or more", name, v, least))
			}
		}
	}
	return nil
}

// readEnd fills b with the last bytes of a file.
func readEnd(on vfs.FS, path string, b []byte) error {
	f, err := on.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := f.ReadAt(b, info.Size()-int64(len(b))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
