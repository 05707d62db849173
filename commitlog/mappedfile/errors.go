package mappedfile

import (
	"errors"
	"fmt"
)

var (
	ErrCorrupt   = errors.New("mappedfile: corrupt")
	ErrDiskFull  = errors.New("mappedfile: disk full")
	ErrLocked    = errors.New("mappedfile: locked")
	ErrNotFound  = errors.New("mappedfile: no such offset") // outside [Min, Max), or not readable in one file
	ErrEndOfFile = errors.New("mappedfile: no room in the current file")
	ErrClosed    = errors.New("mappedfile: closed")
	ErrReadOnly  = errors.New("mappedfile: read-only")
	// ErrMissingFile: a file is missing between others. A listing of a directory that another process adds to may lack one.
	ErrMissingFile = errors.New("mappedfile: a file is missing")

	ErrWrongSize  = errors.New("mappedfile: wrong file length")
	ErrNotRegular = errors.New("mappedfile: not a regular file")
	ErrMisplaced  = errors.New("mappedfile: file name is no possible start offset")
)

// LockedError says that another process, or this one, holds the lock file at Path.
// errors.Is(err, ErrLocked) holds.
type LockedError struct {
	Path string
	PID  int // of the holder; 0 = unknown (a holder on another machine)
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is locked by another process: stop it, or open the store read-only", e.Path)
	}
	return fmt.Sprintf("%s is locked by process %d: stop it, or open the store read-only", e.Path, e.PID)
}

func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// CorruptError is damage with a place. errors.Is(err, ErrCorrupt) holds; Err says what is wrong there.
type CorruptError struct {
	Path string
	Off  int64 // logical offset (commit log) or byte offset in the queue's stream
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt: %s at offset %d: %v", e.Path, e.Off, e.Err)
}

func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
func (e *CorruptError) Unwrap() error        { return e.Err }

// FileError is a directory entry that keeps a Sequence from opening. Nothing was changed.
// Err is ErrWrongSize, ErrNotRegular or ErrMisplaced; the message says what to do.
type FileError struct {
	Path       string
	Size, Want int64 // the entry's length and the sequence's FileSize
	Err        error
}

func (e *FileError) Error() string {
	switch {
	case errors.Is(e.Err, ErrWrongSize):
		return fmt.Sprintf("%s is %d bytes long, files here must be %d: if the store was written with that size, set it; if this file was cut, restore it from a copy; if it does not belong here, move it out of the directory", e.Path, e.Size, e.Want)
	case errors.Is(e.Err, ErrNotRegular):
		return fmt.Sprintf("%s has the name of a segment but is a directory, link or device: move it out of the directory", e.Path)
	default:
		return fmt.Sprintf("%s: a file of %d bytes cannot start at that offset: set the file size that the store was written with, or move this file out of the directory", e.Path, e.Want)
	}
}

func (e *FileError) Unwrap() error { return e.Err }

// missingFile is the missing of a file before another one. errors.Is(err, ErrMissingFile).
type missingFile struct{ behind string }

func (e missingFile) Error() string {
	return fmt.Sprintf("the file is missing, but %s exists: put it back, or move the files behind it out of the directory", e.behind)
}

func (e missingFile) Is(target error) bool { return target == ErrMissingFile }
