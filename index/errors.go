package index

import "errors"

// ErrClosed: the index is closed.
var ErrClosed = errors.New("index: closed")

// ErrFailed: this Index writes no more, since a write failed or its files turned out to be damaged. The cause is wrapped beside it. Close it, and open it again.
var ErrFailed = errors.New("index: failed")

// ErrDamaged: a file of the index is damaged. Open makes the index anew.
var ErrDamaged = errors.New("index: damaged")

// ErrNoIndex: there is no index in the directory (OpenReader).
var ErrNoIndex = errors.New("index: there is none")
