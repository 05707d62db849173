package metasync

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/mqstore/mqstore/ha/remoting"
)

var errEmpty = errors.New("empty")

// DamagedError says that of a table's file no whole version is left, .bak included.
type DamagedError struct {
	Path string
	Err  error // why the file cannot be used
	Bak  error // why its .bak cannot; fs.ErrNotExist if there is none
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s: %v; its .bak: %v. Put a whole copy in its place, for example the master's; or move both away to start with an empty table", e.Path, e.Err, e.Bak)
}

func (e *DamagedError) Unwrap() []error { return []error{e.Err, e.Bak} }

// DirOptions: the zero value is the production default.
type DirOptions struct {
	FS FS // default: the operating system's
	// Damaged is told when a file cannot be used and its .bak is used instead, or an empty table if the file is empty and there is no .bak. It must not call the Dir.
	Damaged func(path string, err error)
}

// Dir is the table files in the config directory of a store. It keeps nothing in memory: each load reads, each save writes, and another process may change the files between.
// Its methods may be called by any number of goroutines. It is a [Source]: what a master without tables in memory serves.
type Dir struct {
	path string
	o    DirOptions
	turn [kinds]chan struct{} // holds one token: who takes it may replace the file
}

// NewDir is the config directory of the store at root. It touches nothing yet.
func NewDir(root string, o DirOptions) *Dir {
	if o.FS == nil {
		o.FS = osFS{}
	}
	if o.Damaged == nil {
		o.Damaged = func(string, error) {}
	}
	d := &Dir{path: filepath.Join(root, "config"), o: o}
	for k := range d.turn {
		d.turn[k] = make(chan struct{}, 1)
		d.turn[k] <- struct{}{}
	}
	return d
}

// Path is where table k lies.
func (d *Dir) Path(k Kind) string { return filepath.Join(d.path, k.File()) }

// LoadTopics reads topics.json, or its .bak. found is false, and the table empty, if there is neither. No whole version left is a *[DamagedError].
func (d *Dir) LoadTopics() (t TopicConfigTable, found bool, err error) {
	return load(d, KindTopics, DecodeTopics)
}

// LoadConsumerOffsets reads consumerOffset.json as LoadTopics does its file.
func (d *Dir) LoadConsumerOffsets() (o ConsumerOffsets, found bool, err error) {
	return load(d, KindConsumerOffsets, DecodeConsumerOffsets)
}

// LoadDelayOffsets reads delayOffset.json as LoadTopics does its file.
func (d *Dir) LoadDelayOffsets() (o DelayOffsets, found bool, err error) {
	return load(d, KindDelayOffsets, DecodeDelayOffsets)
}

// LoadSubscriptionGroups reads subscriptionGroup.json as LoadTopics does its file.
func (d *Dir) LoadSubscriptionGroups() (g SubscriptionGroups, found bool, err error) {
	return load(d, KindSubscriptionGroups, DecodeSubscriptionGroups)
}

// SaveTopics makes t topics.json, durably, and the file before its .bak. changed is false if the file says this already.
func (d *Dir) SaveTopics(t TopicConfigTable) (changed bool, err error) {
	return saveJSON(d, KindTopics, t)
}

// SaveConsumerOffsets makes o consumerOffset.json as SaveTopics does its file.
func (d *Dir) SaveConsumerOffsets(o ConsumerOffsets) (changed bool, err error) {
	return saveJSON(d, KindConsumerOffsets, o)
}

// SaveDelayOffsets makes o delayOffset.json as SaveTopics does its file.
func (d *Dir) SaveDelayOffsets(o DelayOffsets) (changed bool, err error) {
	return saveJSON(d, KindDelayOffsets, o)
}

// SaveSubscriptionGroups makes g subscriptionGroup.json as SaveTopics does its file.
func (d *Dir) SaveSubscriptionGroups(g SubscriptionGroups) (changed bool, err error) {
	return saveJSON(d, KindSubscriptionGroups, g)
}

// MergeConsumerOffsets merges from into consumerOffset.json and returns the whole. If no whole version of the file is left, from is all there is.
func (d *Dir) MergeConsumerOffsets(from ConsumerOffsets) (merged ConsumerOffsets, changed bool, err error) {
	const k = KindConsumerOffsets
	<-d.turn[k]
	defer func() { d.turn[k] <- struct{}{} }()
	merged, _, err = d.LoadConsumerOffsets()
	var damaged *DamagedError
	if err != nil && !errors.As(err, &damaged) {
		return ConsumerOffsets{}, false, err
	}
	merged.Merge(from)
	text, err := fileText(merged)
	if err != nil {
		return ConsumerOffsets{}, false, fmt.Errorf("encode %s: %w", k, err)
	}
	changed, err = d.replace(k, text)
	return merged, changed, err
}

// saveDelayText makes text, checked by the caller, delayOffset.json as it is.
func (d *Dir) saveDelayText(text []byte) (changed bool, err error) {
	<-d.turn[KindDelayOffsets]
	defer func() { d.turn[KindDelayOffsets] <- struct{}{} }()
	return d.replace(KindDelayOffsets, text)
}

func load[T any](d *Dir, k Kind, decode func([]byte) (T, error)) (v T, found bool, err error) {
	read := func(path string) (T, error) {
		b, err := d.o.FS.ReadFile(path)
		if err != nil {
			var zero T
			return zero, err
		}
		return decode(b)
	}
	path := d.Path(k)
	v, err = read(path)
	if err == nil {
		return v, true, nil
	}
	v, bakErr := read(path + ".bak")
	missing := errors.Is(bakErr, fs.ErrNotExist)
	switch {
	case bakErr == nil:
		d.o.Damaged(path, fmt.Errorf("%w; its .bak is used", err))
		return v, true, nil
	case missing && errors.Is(err, fs.ErrNotExist):
		return v, false, nil
	case missing && errors.Is(err, errEmpty):
		d.o.Damaged(path, fmt.Errorf("%w, and there is no .bak: an empty table is used", err))
		return v, false, nil
	}
	return v, false, &DamagedError{Path: path, Err: err, Bak: bakErr}
}

func saveJSON(d *Dir, k Kind, v any) (changed bool, err error) {
	text, err := fileText(v)
	if err != nil {
		return false, fmt.Errorf("encode %s: %w", k, err)
	}
	<-d.turn[k]
	defer func() { d.turn[k] <- struct{}{} }()
	return d.replace(k, text)
}

// fileText is the JSON of v as the original lays out its files.
func fileText(v any) ([]byte, error) {
	b, err := remoting.Marshal(v)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := json.Indent(&buf, b, "", "\t"); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// replace is called by who holds the kind's turn. The .bak is durable before the file changes, so that at each moment one of both is whole.
func (d *Dir) replace(k Kind, text []byte) (changed bool, err error) {
	path := d.Path(k)
	defer func() {
		if err != nil {
			err = fmt.Errorf("save %s: %w", k, err)
		}
	}()
	old, err := d.o.FS.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := d.o.FS.MkdirAll(d.path); err != nil {
			return false, err
		}
	case err != nil:
		return false, err // what cannot be read cannot be kept
	case bytes.Equal(old, text):
		return false, nil
	case check(k, old) == nil:
		if err := d.o.FS.WriteFileDurable(path+".bak", old); err != nil {
			return false, err
		}
	case len(old) > 0:
		if err := d.o.FS.WriteFileDurable(path+".damaged", old); err != nil {
			return false, err
		}
	}
	if err := d.o.FS.WriteFileDurable(path, text); err != nil {
		return false, err
	}
	return true, nil
}

// check says whether text is a whole table of kind k.
func check(k Kind, text []byte) (err error) {
	switch k {
	case KindTopics:
		_, err = DecodeTopics(text)
	case KindConsumerOffsets:
		_, err = DecodeConsumerOffsets(text)
	case KindDelayOffsets:
		_, err = DecodeDelayOffsets(text)
	case KindSubscriptionGroups:
		_, err = DecodeSubscriptionGroups(text)
	}
	return err
}

// Topics is LoadTopics for a server.
func (d *Dir) Topics(context.Context) (TopicConfigTable, error) {
	t, _, err := d.LoadTopics()
	return t, err
}

// ConsumerOffsets is LoadConsumerOffsets for a server.
func (d *Dir) ConsumerOffsets(context.Context) (ConsumerOffsets, error) {
	o, _, err := d.LoadConsumerOffsets()
	return o, err
}

// DelayOffsets is LoadDelayOffsets for a server.
func (d *Dir) DelayOffsets(context.Context) (DelayOffsets, error) {
	o, _, err := d.LoadDelayOffsets()
	return o, err
}

// SubscriptionGroups is LoadSubscriptionGroups for a server.
func (d *Dir) SubscriptionGroups(context.Context) (SubscriptionGroups, error) {
	g, _, err := d.LoadSubscriptionGroups()
	return g, err
}
