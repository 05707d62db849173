package faultfs

import (
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"syscall"
)

// Kind says what an operation does.
type Kind uint8

const (
	OpMap Kind = iota
	OpAllocate
	OpSync
	OpSyncDir
	OpRename
	OpRemove // also of a directory
	OpWriteFile
	OpMkdir // of MkdirAll only when there is something to make
	OpPrewrite
	OpWrite // by a call, not by a store
)

var kindNames = [...]string{"map", "allocate", "sync", "syncdir", "rename", "remove", "writefile", "mkdir", "prewrite", "write"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Op is one counted operation: a call that can fail, and that moves what is durable.
type Op struct {
	N        int64 // 1, 2, …
	Kind     Kind
	Path     string
	Off, Len int64 // of Sync, Allocate, Write, Map (Len), WriteFile (Len)
}

func (o Op) String() string {
	return fmt.Sprintf("%d: %s %s [%d, +%d)", o.N, o.Kind, o.Path, o.Off, o.Len)
}

// Ops is the number of operations so far.
func (f *FS) Ops() int64 { f.mu.Lock(); defer f.mu.Unlock(); return f.mu.ops }

// FailFrom makes operation n (counted from 1) and all later ones fail with err (nil = ErrInjected); n <= 0 ends it.
func (f *FS) FailFrom(n int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.failFrom, f.mu.failErr = n, orInjected(err)
	if n <= 0 {
		f.mu.failFrom = math.MaxInt64
	}
}

// FailOnce makes operation n (counted from 1) fail with err (nil = ErrInjected).
func (f *FS) FailOnce(n int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.failOnce[n] = orInjected(err)
}

func orInjected(err error) error {
	if err == nil {
		return ErrInjected
	}
	return err
}

// SetHook has hook called before each operation, without any lock held: it may block, to hold a Sync back, or return an error, which makes the operation fail. nil removes it.
func (f *FS) SetHook(hook func(Op) error) { f.mu.Lock(); defer f.mu.Unlock(); f.mu.hook = hook }

// begin counts an operation and returns with the lock held, unless err: then the operation did not begin. fault is what it has to fail with, after doing what a failed one does.
func (f *FS) begin(op Op, changes bool) (done func(), fault, err error) {
	f.mu.Lock()
	if f.mu.dead {
		f.mu.Unlock()
		return nil, nil, ErrDead
	}
	f.mu.ops++
	op.N = f.mu.ops
	if e := f.mu.failOnce[op.N]; e != nil {
		fault = e
	}
	if op.N >= f.mu.failFrom {
		fault = f.mu.failErr
	}
	hook := f.mu.hook
	if hook != nil {
		f.mu.Unlock()
		if e := hook(op); e != nil {
			fault = e
		}
		f.mu.Lock()
		if f.mu.dead {
			f.mu.Unlock()
			return nil, nil, ErrDead
		}
	}
	if fault == nil && changes && f.mu.readOnly {
		f.mu.Unlock()
		return nil, nil, &fs.PathError{Op: op.Kind.String(), Path: op.Path, Err: syscall.EROFS}
	}
	if fault != nil {
		fault = fmt.Errorf("%s %s: %w", op.Kind, op.Path, fault)
	}
	return f.mu.Unlock, fault, nil
}

// dice decides what a failed operation leaves behind; by its number, so that a run repeats.
func (f *FS) dice() *rand.Rand { return rand.New(rand.NewPCG(0x6d71, uint64(f.mu.ops))) }
