package mappedfile

import "os"

// What takes blocks on a file system that cannot allocate.
func FillHoles(f *os.File, off, n int64) error  { return fillHoles(f, off, n) }
func LastNonZero(b []byte) int                  { return lastNonZero(b) }
func WriteZeros(f *os.File, off, n int64) error { return writeZeros(f, off, n) }

// Parts of Renew.
func Rewrite(m Mapping, off, n int64) error { return m.(*osMapping).rewrite(off, n) }

func Touch(m Mapping, off, n int64) {
	b, _ := m.(*osMapping).pages("touch", off, n)
	touch(b)
}

func OnDevice(m Mapping, off int64, want []byte) (bool, error) {
	d, err := m.(*osMapping).openDevice()
	if err != nil {
		return false, err
	}
	defer d.close()
	at := off &^ (pageSize - 1)
	return d.holds(alignedBuffer((off+int64(len(want))-at+pageSize-1)&^(pageSize-1)), at, off, want), nil
}
