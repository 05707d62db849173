package checkpoint

import (
	"io"
	"path/filepath"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

const lockName = "lock"

// Lock takes the lock file of the store in root, as RocketMQ does: an exclusive lock on its first byte, and the word "lock" in it. So neither opens a store that the other holds.
// The lock ends with Close of the result or with the process; the file stays. A store that is held is a *mappedfile.LockedError, which names the holder.
func Lock(fsys mappedfile.FS, root string) (io.Closer, error) {
	return fsys.Lock(filepath.Join(root, lockName))
}
