package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/mqstore/mqstore/store"
)

type benchCmd struct {
	Dir       *string       `arg:"" optional:"" name:"dir" help:"Where: on the disk that is to be measured. Default: the system's directory for temporary files."`
	Body      int           `name:"body" default:"1024" help:"Bytes of a message's body."`
	Producers int           `name:"producers" default:"4" help:"Goroutines that put, each to a queue of its own; as many get and query."`
	Flush     string        `name:"flush" enum:"async,sync,both" default:"both" help:"Puts that are answered from memory (async), from the disk (sync), or both one after the other."`
	HA        bool          `name:"ha" help:"Also puts that wait for a slave, over loopback, both with asynchronous flush."`
	Duration  time.Duration `name:"duration" default:"3s" help:"For each kind of work, its limits included: 3s, 500ms, 1m."`
	Size      int64         `name:"size" default:"1073741824" help:"Bytes of log that asynchronous puts may write; other work writes a quarter of it or less."`
	jsonFlag

	entered func(stage string) // nil: nobody is told
}

func (*benchCmd) Help() string {
	return "Each kind of work is measured in turns with what the machine can do at best at that moment (copy memory, fdatasync, read and sum a file, a loopback round trip); the ratio of the two is what compares machines and settings, since rates alone are those of one minute. All of it takes about half a minute. " +
		"It says which file system DIR lies on, how fast that answers fdatasync, and whether that can be true: a network disk, memory, or a disk that lies is named.\n\n" +
		"It works in a directory of its own in DIR, which it removes, also when it is interrupted (killed, it leaves DIR/mqstore-bench-*). DIR need not exist and may have other things in it, but not a message store. It says first how much room it needs, and refuses if there is less.\n\n" +
		"Each kind of work has a store with production's options, but for smaller files (128 MiB at most); messages carry a tag, and in the store that is queried a key each. Figures are medians of five rounds (recovery: three). Gets, queries and recovery find everything in memory.\n\n" +
		"--json: directory fileSystem device mountPoint freeBytes neededBytes cpus version bodyBytes recordBytes producers durationSeconds seconds; disk{verdict(plausible|fast|slow|lies|memory|network) says fdatasyncs fdatasyncP50Micros fdatasyncP99Micros writeCache deviceFlushes}; putAsync putSync putHA get query recovery, each with its rates, the limit's, and ratioToMemcpy, ratioToFdatasync, ratioToRoundTrip or ratioToReadCRC. A kind of work that was not asked for is left out."
}

func (*benchCmd) Examples() string {
	return "  mqstore bench\n  mqstore bench --ha --producers 64 /data\n  mqstore bench --flush sync --body 128 --json /data | jq .putSync.p99Micros"
}

func (c *benchCmd) Validate() error {
	switch {
	case c.Body < 1 || c.Body > 4<<20:
		return usage("--body: %d is not in 1 to %d bytes", c.Body, 4<<20)
	case c.Producers < 1 || c.Producers > 1024:
		return usage("--producers: %d is not in 1 to 1024", c.Producers)
	case c.Producers*c.Body > benchMaxBodies:
		return usage("--producers %d times --body %d is %s of bodies at once: %s are the most", c.Producers, c.Body, size(int64(c.Producers)*int64(c.Body)), size(benchMaxBodies))
	case c.Duration < time.Millisecond || c.Duration > 24*time.Hour:
		return usage("--duration: %v is not in 1ms to 24h", c.Duration)
	case c.Size < 1 || c.Size > benchMaxSize:
		return usage("--size: %d is not in 1 to %d bytes", c.Size, int64(benchMaxSize))
	}
	return nil
}

// bench is one run.
type bench struct {
	c      *benchCmd
	e      *env
	p      benchPlan
	dir    string // its own
	bar    *benchBar
	mem    []byte
	result benchJSON
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (c *benchCmd) Run(e *env) (err error) {
	begin := time.Now()
	p, err := c.plan()
	if err != nil {
		return err
	}
	dir, remove, err := benchDir(c.Dir)
	if err != nil {
		return err
	}
	defer func() {
		rerr := remove()
		if err == nil {
			err = rerr
		} else if rerr != nil {
			e.note("%v", rerr)
		}
	}()
	b := &bench{c: c, e: e, p: p, dir: dir}
	if err := b.place(); err != nil {
		return err
	}
	b.bar = e.benchBar(c.about())
	defer b.bar.end()
	if err := b.all(); err != nil {
		return err
	}
	b.bar.end()
	b.result.Seconds = figures(time.Since(begin).Seconds())
	if c.JSON {
		return e.json(b.result)
	}
	b.print()
	return nil
}

// stage says what is measured now.
func (b *bench) stage(name string) {
	b.bar.stage(name)
	if b.c.entered != nil {
		b.c.entered(name)
	}
}

// place says where everything will be and how much room it takes, and refuses if there is less.
func (b *bench) place() error {
	free, err := roomIn(b.dir)
	if err != nil {
		return explain(b.dir, err)
	}
	where := mountedAt(b.dir)
	b.result = benchJSON{
		Directory: b.dir, FileSystem: where.fileSystem, Device: where.device, MountPoint: where.point, FreeBytes: free, NeededBytes: b.p.need,
		CPUs: runtime.GOMAXPROCS(0), Version: version(), BodyBytes: int64(b.c.Body), RecordBytes: b.p.record, Producers: b.c.Producers, DurationSeconds: b.c.Duration.Seconds(),
	}
	if free >= 0 && free < b.p.need {
		return fmt.Errorf("%s (%s) has %s free, and this takes up to %s: give another DIR, or a smaller --size than %d", filepath.Dir(b.dir), where, size(free), size(b.p.need), b.c.Size)
	}
	room := "how much is free is not known"
	if free >= 0 {
		room = size(free) + " are free"
	}
	b.e.note("about %v in %s (%s); it takes up to %s there, %s", b.c.about().Round(time.Second), b.dir, where, size(b.p.need), room)
	return nil
}

// all measures one kind of work after the other: what waits for the disk first, since writing back and deleting much slows it down.
func (b *bench) all() error {
	b.mem = newMemory(max(min(b.c.Size, memcpyBytes), min(int64(b.c.Producers)*2*b.p.record, memcpyBytes), 2*b.p.record))
	f, err := b.syncFile()
	if err != nil {
		return err
	}
	err = b.disk(f)
	if err == nil && b.c.has(store.SyncFlush) {
		err = b.logOf(store.SyncFlush, !b.c.has(store.AsyncFlush), func(s *store.DefaultMessageStore) error { return b.putSync(s, f) })
	}
	if err = errors.Join(err, f.close()); err != nil {
		return err
	}
	if b.c.HA {
		if err := b.putHA(); err != nil {
			return err
		}
	}
	if err := b.query(); err != nil {
		return err
	}
	if b.c.has(store.AsyncFlush) {
		return b.logOf(store.AsyncFlush, true, b.putAsync)
	}
	return nil
}

// logOf has put fill a store, which is then read and recovered, if it is the one for that.
func (b *bench) logOf(m store.FlushMode, read bool, put func(s *store.DefaultMessageStore) error) error {
	dir, o := b.path("put-"+m.String()), b.options(m)
	s, err := store.Open(dir, o)
	if err != nil {
		return err
	}
	if err = put(s); err == nil && read {
		err = b.get(s)
	}
	if err = errors.Join(err, s.Close()); err != nil || !read {
		return err
	}
	return b.recovery(dir, o)
}

// disk times fdatasyncs of a block each, and judges by them.
func (b *bench) disk(f *syncFile) error {
	b.stage("fdatasync")
	where := mountedAt(b.dir)
	device := where.blockDevice()
	var took latencies
	before := device.flushes()
	d := b.c.Duration / 4
	if _, err := b.fdatasync(f, 4096, &took)(d); err != nil {
		return err
	}
	b.bar.add(d)
	flushes := int64(-1)
	if after := device.flushes(); before >= 0 && after >= before {
		flushes = after - before
	}
	j := &b.result.Disk
	p50 := took.quantile(0.5)
	j.Fdatasyncs, j.FdatasyncP50Micros, j.FdatasyncP99Micros = took.n, figures(micros(p50)), figures(micros(took.quantile(0.99)))
	j.WriteCache = device.writeCache()
	if flushes >= 0 {
		j.DeviceFlushes = &flushes
	}
	j.Verdict, j.Says = verdict(where, j.WriteCache, p50, took.n, flushes)
	return b.e.ctx.Err()
}
