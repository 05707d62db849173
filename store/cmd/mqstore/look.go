package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/mqstore/mqstore/store"
	"github.com/mqstore/mqstore/store/internal/repair"
)

// storeArgs says which store.
type storeArgs struct {
	Dir       string `arg:"" name:"dir" help:"The store's directory."`
	CommitLog string `name:"commitlog" placeholder:"DIR" help:"The commit log's directory, where it is not the store's commitlog (storePathCommitLog)."`
}

// look is a store directory opened for looking: the files as they lie and, once asked for, the store over them.
type look struct {
	e     *env
	args  storeArgs
	files *repair.Files
	live  bool // a process has the store open
	pid   int  // which; 0: unknown
	store *store.ReadOnlyStore
	bar   *progress // of opening the store and of what reads all of it
	noted int       // what was said of the store that an opening would mend, or that was not read
}

// look opens a store for looking. It says so when the store is live.
func (e *env) look(args storeArgs) (*look, error) {
	files, err := lookFiles(args)
	if err != nil {
		return nil, explain(args.Dir, err)
	}
	l := &look{e: e, args: args, files: files}
	l.pid, l.live, err = repair.Holder(args.Dir)
	if err != nil {
		return nil, explain(args.Dir, err)
	}
	if l.live {
		e.noteLive(args.Dir, l.pid)
	}
	return l, nil
}

// noteLive says that a process has the store open; pid 0: it is not known which.
func (e *env) noteLive(dir string, pid int) {
	holder := "a running process"
	if pid > 0 {
		holder = fmt.Sprintf("process %d", pid)
	}
	e.note("note: %s is in use by %s: this is how it looks at this moment", dir, holder)
}

func lookFiles(args storeArgs) (*repair.Files, error) {
	info, err := os.Stat(args.Dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file: give the store's directory", args.Dir)
	}
	var log fs.FS
	if args.CommitLog != "" {
		if _, err := os.Stat(args.CommitLog); err != nil {
			return nil, err
		}
		log = os.DirFS(args.CommitLog)
	}
	return repair.Look(os.DirFS(args.Dir), log)
}

// open opens the store over the files, read-only. Damage does not stop it: the log ends there, which a note says.
func (l *look) open() (*store.ReadOnlyStore, error) {
	if l.store != nil {
		return l.store, nil
	}
	l.bar = l.e.progress(false)
	defer l.bar.end()
	o := store.Options{CommitLogDir: l.args.CommitLog, OnDamage: store.DamageCut, Progress: l.bar.at, Index: store.IndexOptions{MaxResults: math.MaxInt32}}
	s, err := store.OpenReadOnly(l.args.Dir, o)
	for again := 0; l.live && errors.Is(err, fs.ErrNotExist) && again < 3; again++ { // its process has deleted a file between our listing and opening it
		s, err = store.OpenReadOnly(l.args.Dir, o)
	}
	if err != nil {
		return nil, explain(l.args.Dir, err)
	}
	l.store = s
	l.bar.end()
	if !l.live { // whose queues follow its log with a delay, and whose last record may be half written
		for _, w := range s.Warnings() {
			l.e.note("note: %s", printable(w))
			l.noted++
		}
	}
	return s, nil
}

func (l *look) close() {
	if l.store != nil {
		l.store.Close()
	}
}

// queue is the queue's row; an unknown one is an error that names the nearest.
func (l *look) queue(s *store.ReadOnlyStore, topic string, queueID int32) (store.QueueInfo, error) {
	all := s.Queues()
	for _, q := range all {
		if q.Topic == topic && q.QueueID == queueID {
			return q, nil
		}
	}
	names := make([]repair.QueueName, len(all))
	for i, q := range all {
		names[i] = repair.QueueName{Topic: q.Topic, QueueID: q.QueueID}
	}
	return store.QueueInfo{}, noQueue(names, topic, queueID)
}

// noQueue says that there is no such queue, and what there is that resembles it.
func noQueue(have []repair.QueueName, topic string, queueID int32) error {
	var ids []string
	topics := map[string]bool{}
	for _, q := range have {
		topics[q.Topic] = true
		if q.Topic == topic {
			ids = append(ids, itoa(q.QueueID))
		}
	}
	switch {
	case topic == "":
		return usage("the topic is empty: no topic has that name")
	case len(have) == 0:
		return nothing("no queue %s/%d: the store has no queues", topic, queueID)
	case len(ids) > 0:
		return nothing("no queue %d in topic %s: it has %s", queueID, topic, some(ids, 20))
	}
	names := make([]string, 0, len(topics))
	for t := range topics {
		names = append(names, t)
	}
	near := nearest(topic, names, 5)
	if len(near) == 0 {
		return nothing("no topic %s: none of the store's %s resembles it (mqstore queues lists them)", topic, count(len(names), "topic", "topics"))
	}
	return nothing("no topic %s: the nearest are %s", topic, strings.Join(near, ", "))
}

// some is the first n of list, and how many more there are.
func some(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:n], ", ") + " and " + itoa(len(list)-n) + " more"
}

// nearest are the names most like want, most alike first; names that have little in common with it are left out.
func nearest(want string, names []string, n int) []string {
	type scored struct {
		name string
		d    int
	}
	var all []scored
	lower := strings.ToLower(want)
	for _, name := range names {
		l := strings.ToLower(name)
		d := distance(lower, l)
		if want != "" && (strings.Contains(l, lower) || strings.Contains(lower, l)) {
			d = min(d, 1)
		}
		if d <= max(2, len(want)/2) {
			all = append(all, scored{name, d})
		}
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].d != all[j].d {
			return all[i].d < all[j].d
		}
		return all[i].name < all[j].name
	})
	out := make([]string, 0, n)
	for _, s := range all[:min(n, len(all))] {
		out = append(out, s.name)
	}
	return out
}

// distance is the number of bytes to insert, delete or replace between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// explain says to whom it may concern at 3 a.m. what to do about an error of opening dir.
func explain(dir string, err error) error {
	var not *repair.NotAStoreError
	switch {
	case dir == "":
		return usage("the directory's name is empty: give the store's directory")
	case errors.As(err, &not):
		if not.Within != "" {
			return fmt.Errorf("%s: %w: try %s", dir, err, filepath.Join(dir, not.Within))
		}
		return fmt.Errorf("%s: %w", dir, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: is the path right, and the disk mounted?", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; this process runs as user id %d%s", err, os.Getuid(), ownerOf(dir))
	}
	return err
}
