package index

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// iterator is Pebble's, without its panics: it takes a block whose checksum is right for one that it wrote, and meets what it did not, a handle that leads to another block, as a programmer's mistake.
type iterator struct {
	it  *pebble.Iterator
	err error // what was caught: the iterator is not used again
}

func (d *database) iterate(o *pebble.IterOptions) (i *iterator, err error) {
	i = &iterator{}
	ok := true
	defer func() {
		if !ok {
			err = i.err
		}
	}()
	defer i.caught(&ok)
	i.it, err = d.NewIter(o)
	return i, err
}

// caught is deferred by what calls Pebble.
func (i *iterator) caught(ok *bool) {
	if r := recover(); r != nil {
		*ok, i.err = false, damaged(fmt.Errorf("pebble: %v", r))
	}
}

func (i *iterator) first() (ok bool) {
	defer i.caught(&ok)
	return i.it.First()
}

func (i *iterator) next() (ok bool) {
	defer i.caught(&ok)
	return i.it.Next()
}

func (i *iterator) seekGE(key []byte) (ok bool) {
	defer i.caught(&ok)
	return i.it.SeekGE(key)
}

func (i *iterator) seekPrefixGE(key []byte) (ok bool) {
	defer i.caught(&ok)
	return i.it.SeekPrefixGE(key)
}

func (i *iterator) key() []byte { return i.it.Key() }

// value is valid until the iterator moves.
func (i *iterator) value() (v []byte, err error) {
	ok := true
	defer func() {
		if !ok {
			err = i.err
		}
	}()
	defer i.caught(&ok)
	return i.it.ValueAndErr()
}

// error is why it stands nowhere; nil at the end.
func (i *iterator) error() error {
	if i.err != nil {
		return i.err
	}
	return i.it.Error()
}

func (i *iterator) close() (err error) {
	ok := true
	before := i.err
	defer func() {
		if before != nil { // told already; what its Close says now is a consequence
			err = nil
		} else if !ok {
			err = errors.Join(err, i.err)
		}
	}()
	defer i.caught(&ok)
	return i.it.Close()
}
