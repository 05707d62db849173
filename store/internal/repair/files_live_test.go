package repair

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
)

// flickering leaves one entry out of its first listing of a directory, as a listing beside a running store may.
type flickering struct {
	fs.FS
	hidden string
	listed int
}

func (f *flickering) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(f.FS, name)
	if f.listed++; f.listed > 1 {
		return list, err
	}
	var out []fs.DirEntry
	for _, d := range list {
		if d.Name() != f.hidden {
			out = append(out, d)
		}
	}
	return out, err
}

func TestAFileThatOneListingMissedIsNoHole(t *testing.T) {
	files := fstest.MapFS{}
	for start := int64(0); start < 5000; start += 1000 {
		files["commitlog/"+segmentName(start)] = &fstest.MapFile{Data: make([]byte, 1000)}
	}
	list, err := segments(&flickering{FS: files, hidden: segmentName(3000)}, "commitlog")
	if err != nil || len(list) != 5 {
		t.Errorf("%d segments, %v: %s", len(list), err, fmt.Sprint(list))
	}
	delete(files, "commitlog/"+segmentName(3000))
	if list, err = segments(files, "commitlog"); err != nil || len(list) != 4 {
		t.Errorf("%d segments, %v: a hole that stays is one", len(list), err)
	}
}
