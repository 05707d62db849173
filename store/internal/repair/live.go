package repair

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// Holder reports whether a process has the store in dir open, and which (0: unknown). It takes no lock. Who may not open
// the lock file is told that nobody has.
func Holder(dir string) (pid int, live bool, err error) {
	pid, live, err = mappedfile.Holder(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrPermission) {
		return 0, false, nil
	}
	return pid, live, err
}
