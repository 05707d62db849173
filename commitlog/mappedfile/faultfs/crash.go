package faultfs

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
)

type dirKind uint8

const (
	dirCreate dirKind = iota // also replaces: path names n
	dirRemove
	dirRename
	dirMkdir
	dirRmdir
	dirMoveDir
)

// dirOp is one change of a directory.
type dirOp struct {
	kind     dirKind
	path, to string
	n        *node
}

func (o dirOp) touches(dir string) bool {
	return filepath.Dir(o.path) == dir || o.to != "" && filepath.Dir(o.to) == dir
}

// change notes an operation that processes see already.
func (f *FS) change(o dirOp) { f.mu.pending = append(f.mu.pending, o) }

// syncDir makes the changes of one directory durable, in order.
func (f *FS) syncDir(dir string) {
	f.mu.pending = slices.DeleteFunc(f.mu.pending, func(o dirOp) bool {
		if !o.touches(dir) {
			return false
		}
		f.mu.durable.apply(o)
		return true
	})
}

func (t *tree) apply(o dirOp) {
	switch o.kind {
	case dirCreate:
		t.files[o.path] = o.n
	case dirRemove:
		if t.files[o.path] == o.n {
			delete(t.files, o.path)
		}
	case dirRename:
		if t.files[o.path] == o.n {
			delete(t.files, o.path)
		}
		t.files[o.to] = o.n
	case dirMkdir:
		t.dirs[o.path] = true
	case dirRmdir:
		delete(t.dirs, o.path)
	case dirMoveDir:
		t.moveDir(o.path, o.to)
	}
}

func (t *tree) moveDir(from, to string) {
	if !t.dirs[from] {
		return
	}
	prefix := from + string(filepath.Separator)
	for _, p := range slices.Collect(maps.Keys(t.files)) {
		if strings.HasPrefix(p, prefix) {
			t.files[filepath.Join(to, p[len(prefix):])] = t.files[p]
			delete(t.files, p)
		}
	}
	for _, p := range slices.Collect(maps.Keys(t.dirs)) {
		if strings.HasPrefix(p, prefix) {
			t.dirs[filepath.Join(to, p[len(prefix):])] = true
			delete(t.dirs, p)
		}
	}
	delete(t.dirs, from)
	t.dirs[to] = true
}

// prune drops what lies in directories that are not there.
func (t *tree) prune() {
	for {
		before := len(t.files) + len(t.dirs)
		there := func(path string) bool { d := filepath.Dir(path); return isRoot(d) || t.dirs[d] }
		maps.DeleteFunc(t.files, func(p string, _ *node) bool { return !there(p) })
		maps.DeleteFunc(t.dirs, func(p string, _ bool) bool { return !there(p) })
		if len(t.files)+len(t.dirs) == before {
			return
		}
	}
}

// end makes f dead and hands its state over, with everything that a process set gone: faults, hook, locks.
func (f *FS) end() state {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.mu.state
	for path, n := range old.seen.files {
		n.mustBeAllocated(path, 0, len(n.mem))
	}
	f.mu.state = newState()
	f.mu.dead = true
	f.mu.ops = old.ops
	return old
}

// Kill ends the process that uses f: what it stored is still seen, and not more durable than before. f and its handles are dead; the returned file system goes on, with no faults, hook or locks.
func (f *FS) Kill() *FS {
	old := f.end()
	clones := map[*node]*node{}
	clone := func(n *node) *node {
		if n == nil {
			return nil
		}
		if clones[n] == nil {
			clones[n] = &node{mem: slices.Clone(n.mem), dur: slices.Clone(n.dur), allocated: slices.Clone(n.allocated), dropped: maps.Clone(n.dropped), unsized: n.unsized, modTime: n.modTime}
		}
		return clones[n]
	}
	g := New()
	g.mu.limit, g.mu.readOnly, g.mu.now = old.limit, old.readOnly, old.now
	g.mu.seen.dirs, g.mu.durable.dirs = old.seen.dirs, old.durable.dirs
	for p, n := range old.seen.files {
		g.setLink(p, clone(n))
	}
	for p, n := range old.durable.files {
		g.mu.durable.files[p] = clone(n)
	}
	for _, o := range old.pending {
		o.n = clone(o.n)
		g.mu.pending = append(g.mu.pending, o)
	}
	g.recount()
	return g
}

// Crash cuts the power. Of what was not synced, rng decides what survives. f and its handles are dead; the returned file system holds the survivors, all durable.
func (f *FS) Crash(rng *rand.Rand) *FS {
	old := f.end()
	for _, o := range old.pending {
		if rng.IntN(2) == 0 {
			old.durable.apply(o)
		}
	}
	old.durable.prune()
	g := New()
	g.mu.limit, g.mu.now = old.limit, old.now
	g.mu.durable.dirs = old.durable.dirs
	g.mu.seen.dirs = maps.Clone(old.durable.dirs)
	for _, p := range slices.Sorted(maps.Keys(old.durable.files)) {
		n := old.durable.files[p].crash(rng)
		g.setLink(p, n)
		g.mu.durable.files[p] = n
	}
	g.recount()
	return g
}

func (n *node) crash(rng *rand.Rand) *node {
	if n.unsized && rng.IntN(2) == 0 {
		return &node{modTime: n.modTime}
	}
	image := slices.Clone(n.dur)
	n.eachPage(0, len(image), func(p, a, b int) {
		if slices.Equal(image[a:b], n.mem[a:b]) {
			return
		}
		if old, is := n.dropped[p]; is && slices.Equal(old, n.mem[a:b]) {
			return // lost when its sync failed
		}
		switch rng.IntN(3) {
		case 0: // kept
			copy(image[a:b], n.mem[a:b])
		case 1: // lost
		case 2: // torn
			for s := a; s < b; s += sectorSize {
				if e := min(s+sectorSize, b); rng.IntN(2) == 0 {
					copy(image[s:e], n.mem[s:e])
				}
			}
		}
	})
	allocated := slices.Clone(n.allocated)
	n.eachPage(0, len(image), func(p, a, b int) {
		allocated[p] = allocated[p] || !zero(image[a:b]) // a removal that did not reach the device gave the blocks back too early
	})
	return &node{mem: image, dur: slices.Clone(image), allocated: allocated, modTime: n.modTime}
}

// recount finds how much of the device is taken.
func (f *FS) recount() {
	f.mu.used = 0
	for _, n := range f.mu.seen.files {
		for _, is := range n.allocated {
			if is {
				f.mu.used += pageSize
			}
		}
	}
}
