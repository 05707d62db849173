package index

import "github.com/cockroachdb/pebble/v2/vfs"

// WithFS puts the index on a file system.
func (o Options) WithFS(fs vfs.FS) Options {
	o.fs = fs
	return o
}
