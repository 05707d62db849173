package mappedfile

import (
	"io"
	"time"
)

// MapMode says what Map does with the file.
type MapMode uint8

const (
	MapExisting     MapMode = iota // map what is there, writable; size 0 = the file's own length, else it must be equal (ErrWrongSize)
	MapCreate                      // create (fs.ErrExist if there), allocate every block of size, map; ErrDiskFull here, never a signal later
	MapCreateSparse                // create at full length, no block allocated: Allocate ranges before storing into them. Nothing is durable yet, see FS
	MapReadOnly                    // map what is there, read-only: a store into Bytes is a fault
)

// FS is what mapped files need of a file system: OS in production, faultfs in tests. Its methods may be called by any number of goroutines.
//
// A file made by MapCreate is durable, with its name, length and blocks, when Map returns. One made by MapCreateSparse is not, so that it costs no sync: its length is durable
// (with what is synced) after a Sync of any part, its name after SyncDir; until then a power loss may leave it with length 0, or not at all. After an error the file is not there.
// Remove and Rename are durable after SyncDir of the directory. What a file holds is durable after Mapping.Sync or WriteFileDurable.
type FS interface {
	Map(path string, size int64, mode MapMode) (Mapping, error)
	Stat(path string) (Info, error) // does not follow links
	ReadFile(path string) ([]byte, error)
	WriteFileDurable(path string, b []byte) error // temp, sync, rename, sync dir: after a crash the old bytes or the new ones; one writer per path at a time
	ReadDir(dir string) ([]Info, error)           // sorted by name; fs.ErrNotExist if missing
	MkdirAll(dir string) error                    // durable: each created directory's parent is synced
	Mkdir(dir string) error                       // one directory: fs.ErrExist if there, fs.ErrNotExist without its parent. Durable after SyncDir of the parent
	Remove(path string) error
	RemoveDir(dir string) error // an empty directory
	Rename(oldPath, newPath string) error
	SyncDir(dir string) error
	Lock(path string) (io.Closer, error) // exclusive, held until Close or the process ends; *LockedError if held, also by this process. The file stays.
	Free(dir string) (free, total int64, err error)
}

// Info is one directory entry.
type Info struct {
	Name    string
	Size    int64
	IsDir   bool
	Regular bool // neither directory nor link nor device
	ModTime time.Time
}

// Mapping is one mapped file. Bytes stay valid until Close, which the caller must not run beside any other use. A store into Bytes is durable only after Sync of its range.
// The file's length is checked when it is mapped: who shortens it later from outside makes touching the lost part a fault that ends the process.
type Mapping interface {
	Bytes() []byte
	Write(off int64, p []byte) error // puts p into Bytes as a store would, but by a call, into allocated blocks. It may be seen in part before it returns; after an error the range holds old and new bytes
	Sync(off, n int64) error         // waits for the device. After an error nothing is known about the range: the kernel may have dropped it
	// Renew is Sync of a range of which a sync failed, perhaps, in this process or an earlier one: the kernel then holds pages for clean whose bytes never reached the device. Where the
	// device has other bytes, or nobody can tell, they are written again. Beside stores into the range, as Sync. Its pages leave this process's memory, not the page cache.
	Renew(off, n int64) error
	Allocate(off, n int64) error         // blocks for the range, so that a store there cannot fail; ErrDiskFull. A no-op where allocated already. Nobody stores into the range meanwhile
	Populate(off, n int64) error         // fault pages in for writing, best effort; never a signal. It makes them dirty
	Prewrite(off, n int64) error         // turn allocated blocks into written ones (Populate, then wait for the device), so that a later Sync costs no journal commit. Beside stores into the range, which it does not promise to make durable. An error is as of Sync
	Advise(a Advice, off, n int64) error // best effort
	Close() error
}

// Advice tells the kernel how a range will be read.
type Advice uint8

const (
	AdviceRandom     Advice = iota // no read-ahead
	AdviceSequential               // read far ahead
	AdviceRelease                  // the process's hold on the pages of the range ends, they stay in the page cache: who reads a large file once through its mapping would seem to need as much memory
	AdviceDontNeed                 // drop the clean pages of the range from the page cache
)
