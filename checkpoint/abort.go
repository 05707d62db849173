package checkpoint

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

const abortName = "abort"

// AbortExists reports whether the abort file is there: whoever had the store open last did not close it cleanly, or still has it open.
// What the file holds does not matter: RocketMQ 4.9.8 leaves it empty, 5.3.3 writes its process id.
func AbortExists(fsys mappedfile.FS, root string) (bool, error) {
	_, err := fsys.Stat(filepath.Join(root, abortName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// CreateAbort makes the abort file, empty as RocketMQ 4.9.8's. It is durable when CreateAbort returns: only then may the store write anything else.
func CreateAbort(fsys mappedfile.FS, root string) error {
	return fsys.WriteFileDurable(filepath.Join(root, abortName), nil)
}

// RemoveAbort removes the abort file, durably: everything else must be durable before. One that is not there is no error.
func RemoveAbort(fsys mappedfile.FS, root string) error {
	return removeDurable(fsys, root, abortName)
}

func removeDurable(fsys mappedfile.FS, root, name string) error {
	if err := fsys.Remove(filepath.Join(root, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(root) // also for a file that is gone: an earlier removal may have failed here
}
