package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// Options say which store is mended, and how. The zero value of every field but Root is the default.
type Options struct {
	Root          string // the store's directory
	CommitLogDir  string // the log's, where it is not <Root>/commitlog
	DryRun        bool   // nothing is written and no lock is taken: the result is what the run would do
	QueueFileSize int64  // bytes of a queue file that is made; 0 = that of most files there, else 6,000,000
	NoIndex       bool   // the store is run without an index (messageIndexEnable=false): none is made or completed
	MultiDispatch bool   // records have units in the queues that INNER_MULTI_DISPATCH names (enableMultiDispatch). Light queues (%LMQ%) that are there say so, too

	// Progress tells how far a stage is, in bytes of the log. May be nil.
	Progress func(stage string, done, total int64)
}

// Made is what a verb that makes things anew made.
type Made struct {
	Records int64 // of the log
	Units   int64
	Keys    int64 // index entries
	Bytes   int64 // of the log
}

const (
	quarantineDir = "quarantine"
	pebbleDir     = "index_pebble"
	lightQueues   = "%LMQ%" // how the topics of light queues begin

	defaultQueueFileSize = 6_000_000
)

// mender is a store that is held for writing, or for a dry run looked at.
type mender struct {
	Options
	ctx   context.Context
	fs    mappedfile.FS
	files *Files
	lock  io.Closer
}

// hold takes the store's lock, which RocketMQ takes as well. A dry run only asks who has it.
func hold(ctx context.Context, o Options) (*mender, error) {
	var log fs.FS
	if o.CommitLogDir == "" {
		o.CommitLogDir = filepath.Join(o.Root, commitLogDir)
	} else {
		log = os.DirFS(o.CommitLogDir)
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	files, err := Look(os.DirFS(o.Root), log)
	if err != nil {
		return nil, err
	}
	m := &mender{Options: o, ctx: ctx, fs: mappedfile.OS(), files: files}
	if err := m.apart(); err != nil {
		return nil, err
	}
	if err := m.foreign(); err != nil {
		return nil, err
	}
	if o.DryRun {
		pid, live, err := Holder(o.Root)
		if live {
			err = &mappedfile.LockedError{Path: filepath.Join(o.Root, "lock"), PID: pid}
		}
		if err != nil {
			return nil, err
		}
	} else if m.lock, err = checkpoint.Lock(m.fs, o.Root); err != nil {
		return nil, err
	}
	err = m.prepare()
	if err == nil {
		m.files, err = Look(os.DirFS(o.Root), log) // as it is now that nobody writes
	}
	if err != nil {
		return nil, errors.Join(err, m.release())
	}
	return m, nil
}

// end lets the store go. What a run that failed left unfinished is removed: the disk may be full of it.
func (m *mender) end(err error) error {
	if err != nil {
		err = errors.Join(err, m.clearFresh())
	}
	return errors.Join(err, m.release())
}

func (m *mender) release() error {
	if m.lock == nil {
		return nil
	}
	return m.lock.Close()
}

// apart refuses a store whose parts lie in one another, by links or by a wrong option: what belongs in one is a stray in the other, and would be set aside.
func (m *mender) apart() error {
	var paths, real []string
	for _, path := range []string{m.Root, m.CommitLogDir, filepath.Join(m.Root, queueDir), filepath.Join(m.Root, batchQueueDir), filepath.Join(m.Root, extDir), filepath.Join(m.Root, indexDir)} {
		to, err := filepath.EvalSymlinks(path)
		if err == nil {
			to, err = filepath.Abs(to)
		}
		if err != nil {
			continue // who reads it says what is wrong
		}
		for i, other := range real {
			if within(other, to) || i > 0 && within(to, other) { // in the root they may lie
				return fmt.Errorf("%s is %s, and %s is %s: the one lies in the other, so that files of the one would be strays in the other: remove the link, or give another --commitlog", path, to, paths[i], other)
			}
		}
		paths, real = append(paths, path), append(real, to)
	}
	return nil
}

// foreign refuses to write beside formats that would then disagree with the log. The store refuses them as well.
func (m *mender) foreign() error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf(format+", which this version does not write: mqstore salvage or export copies what a commit log holds", args...)
	}
	if topics, err := fs.ReadDir(m.files.root, batchQueueDir); err == nil && len(topics) > 0 {
		return refuse("%s/ has batch queues of RocketMQ 5 (topic %s)", batchQueueDir, topics[0].Name())
	}
	list, err := fs.ReadDir(m.files.root, ".")
	if err != nil {
		return err
	}
	for _, d := range list {
		name := d.Name()
		if name == "epochFileCheckpoint" {
			if info, err := d.Info(); err == nil && info.Size() > 0 {
				return refuse("%s has the epochs of RocketMQ 5's controller mode", name)
			}
		}
		if !d.IsDir() || name == pebbleDir || name == quarantineDir {
			continue
		}
		if strings.HasPrefix(name, "dledger-") {
			return refuse("%s/ is a DLedger commit log", name)
		}
		current, err := fs.Stat(m.files.root, name+"/CURRENT")
		manifests, _ := fs.Glob(m.files.root, name+"/MANIFEST-*")
		if err == nil && current.Mode().IsRegular() && len(manifests) > 0 && !strings.HasSuffix(name, freshSuffix) {
			return refuse("%s/ is a RocksDB (consume queues of storeType=defaultRocksDB)", name)
		}
	}
	return nil
}

// prepare finds out what the files say of the options that are not given.
func (m *mender) prepare() error {
	queues, err := m.files.Queues()
	if err != nil {
		return err
	}
	if !m.MultiDispatch {
		if m.MultiDispatch, err = m.files.manyDispatch(queues); err != nil {
			return err
		}
	}
	if m.QueueFileSize == 0 {
		m.QueueFileSize, err = m.files.queueFileSize(queues)
	}
	return err
}

// manyDispatch reports whether records have units in light queues (enableMultiDispatch): there is one, or no queue is left to tell and one of the log's first thousands of records has.
func (f *Files) manyDispatch(queues []QueueName) (bool, error) {
	if len(queues) > 0 {
		return slices.ContainsFunc(queues, func(q QueueName) bool { return strings.HasPrefix(q.Topic, lightQueues) }), nil
	}
	r, err := f.ReadLog(0)
	if err != nil {
		return false, err
	}
	defer r.Close()
	r.MetaOnly, r.longAside = true, true
	const enough = 10_000
	for range enough {
		rec, err := r.Next()
		switch d := (*Damage)(nil); {
		case err == io.EOF:
			return false, nil
		case errors.As(err, &d):
			continue
		case err != nil:
			return false, err
		}
		if isMultiDispatched(&rec.Meta) {
			return true, nil
		}
	}
	return false, nil
}

// isMultiDispatched reports whether the store gave the record queue offsets in light queues.
func isMultiDispatched(m *record.Meta) bool {
	names, ok := m.Properties.View(record.PropertyMultiDispatch)
	return ok && isNumberedInMany(m) && strings.Contains(string(names), lightQueues)
}

func isNumberedInMany(m *record.Meta) bool {
	_, ok := m.Properties.View(record.PropertyMultiQueueOffset)
	return ok
}

// queueFileSize is the length of most of the queues' first files.
func (f *Files) queueFileSize(queues []QueueName) (int64, error) {
	count := map[int64]int{}
	best := int64(0)
	for _, q := range queues {
		segs, err := segments(f.root, queuePath(q))
		if err != nil {
			return 0, err
		}
		for _, s := range segs {
			if s.Size <= 0 || s.Size%consumequeue.UnitSize != 0 || s.Start%s.Size != 0 {
				continue
			}
			if count[s.Size]++; count[s.Size] > count[best] || count[s.Size] == count[best] && s.Size > best {
				best = s.Size
			}
		}
	}
	if best == 0 {
		best = defaultQueueFileSize
	}
	return best, nil
}

func queuePath(q QueueName) string { return fmt.Sprintf("%s/%s/%d", queueDir, q.Topic, q.QueueID) }

// recovery is how the store is opened.
func (m *mender) recovery() recovery.Options {
	return recovery.Options{
		FS: m.fs, Root: m.Root, CommitLogDir: m.CommitLogDir,
		CommitLog:     commitlog.Options{QuarantineDir: m.quarantine(), NoBackground: true, Frugal: true},
		Queues:        consumequeue.Options{FileSize: m.QueueFileSize, ExtDir: filepath.Join(m.Root, extDir)},
		MultiDispatch: m.MultiDispatch,
		CheckQueues:   true,
		RebuildBroken: true,
		ReadOnly:      m.DryRun,
		Plan:          m.DryRun,
		Progress:      m.Progress,
		Stop:          m.ctx.Err,
	}
}

func (m *mender) quarantine() string { return filepath.Join(m.Root, quarantineDir) }

// finish closes what was opened: after a dry run untouched, else as after a clean exit.
func (m *mender) finish(op *recovery.Opened) error {
	if m.DryRun {
		return op.Close()
	}
	return op.Seal(m.fs, m.Root)
}

// kept is what recovery keeps, or would keep, of the log.
func (m *mender) kept(op *recovery.Opened) ([]string, error) {
	files := slices.Clone(op.Report.Quarantine)
	if m.DryRun && op.Report.DroppedBytes > 0 {
		var err error
		if files, err = commitlog.Remains(commitlog.Options{FS: m.fs, Dir: m.CommitLogDir, QuarantineDir: m.quarantine()}, op.Report.End); err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	return files, nil
}

// aside moves path, which is below the store's root, to quarantine/<name>, and returns where it is. A dry run only says where.
func (m *mender) aside(path, name string) (string, error) {
	to := filepath.Join(m.quarantine(), name)
	for n := 2; ; n++ {
		_, err := os.Lstat(to)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", err
		}
		to = filepath.Join(m.quarantine(), fmt.Sprintf("%s-%d", name, n))
	}
	if m.DryRun {
		return to, nil
	}
	if err := m.fs.MkdirAll(filepath.Dir(to)); err != nil {
		return "", err
	}
	if err := os.Rename(path, to); err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	return to, errors.Join(m.fs.SyncDir(filepath.Dir(to)), m.fs.SyncDir(filepath.Dir(path)))
}
