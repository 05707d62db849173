package interop

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/mqstore/mqstore/conformance/effort"
)

// tiny makes segments roll and queue files too, every few messages.
var tiny = settings{
	"mappedFileSizeCommitLog": 64 << 10, "mappedFileSizeConsumeQueue": 20 * 4000, "maxHashSlotNum": 500, "maxIndexNum": 2000,
	"haListenPort": 0,
}

func exits(kill bool) string {
	if kill {
		return "killed"
	}
	return "closed"
}

// What one engine wrote, the other one reads, continues, and hands back.
func TestEachEngineOpensWhatTheOtherWrote(t *testing.T) {
	t.Parallel()
	classpath(t, v4)
	exe := buildCommand(t)
	for _, c := range []struct {
		first, second string
	}{{ours, v4}, {v4, ours}, {ours, v5}, {v5, ours}} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s-%s-%s", c.first, exits(kill), c.second), func(t *testing.T) {
				t.Parallel()
				l := newLedger(t, 1)
				dir := t.TempDir()
				for i, version := range []string{c.first, c.second, c.first} {
					p := startPeer(t, version)
					p.open(dir, portless(t, version, tiny))
					if i > 0 {
						l.check(p)
					}
					l.put(p, 200)
					l.check(p)
					if version == ours {
						l.checkKeys(p, func(kept) bool { return true })
					} else {
						l.checkKeys(p, func(k kept) bool { return k.by == version })
					}
					p.end(kill)
					if !kill {
						command(t, exe, "verify", "--no-index", dir)
					}
				}
			})
		}
	}
}

// A store goes back and forth, and now and then the process that has it is killed.
func TestBackAndForth(t *testing.T) {
	t.Parallel()
	for _, version := range []string{v4, v5} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			for seed := range effort.Seeds(t, 1, 1) {
				l := newLedger(t, seed)
				dir := t.TempDir()
				for i := range 10 {
					for _, who := range []string{ours, version} {
						p := startPeer(t, who)
						p.open(dir, portless(t, who, tiny))
						if len(l.log) > 0 {
							l.check(p)
						}
						l.put(p, 30+l.rng.IntN(60))
						kill := l.rng.IntN(3) == 0
						t.Logf("round %d: %s, %d messages, then %s", i, who, len(l.log), exits(kill))
						p.end(kill)
					}
				}
				p := startPeer(t, ours)
				p.open(dir, portless(t, ours, tiny))
				l.check(p)
				l.checkKeys(p, func(kept) bool { return true })
				p.close()
			}
		})
	}
}

// The sizes that production has: 1 GiB of log and 300,000 units a file.
func TestDefaultSegmentsGoBackAndForth(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3)
	dir := t.TempDir()
	for i, version := range []string{ours, v4, ours, v4, ours} {
		p := startPeer(t, version)
		p.open(dir, portless(t, version, settings{"haListenPort": 0}))
		if i > 0 {
			l.check(p)
		}
		l.put(p, 100)
		l.check(p)
		p.end(i == 0 || i == 3)
	}
}

// What we wrote is found by key in the original once its index was written from the log: every key, those of several index files too.
func TestTheOriginalFindsByKeyWhatWasExported(t *testing.T) {
	t.Parallel()
	for _, version := range []string{v4, v5} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			classpath(t, version)
			exe := buildCommand(t)
			l := newLedger(t, 5)
			dir := t.TempDir()
			small := tiny.with(settings{"maxHashSlotNum": 50, "maxIndexNum": 100})
			p := startPeer(t, ours)
			p.open(dir, portless(t, ours, small))
			l.put(p, 300)
			for !l.log[len(l.log)-1].m.SysFlag.Transaction().HasUnit() {
				l.put(p, 1) // 4.9.8 goes on at the last unit: a record without one at the log's end is indexed again each time it starts, and found twice
			}
			p.close()
			command(t, exe, "index-export", "--slots", "50", "--entries", "100", dir)

			p = startPeer(t, version)
			p.open(dir, portless(t, version, small))
			l.checkKeys(p, func(kept) bool { return true })
			l.put(p, 100)
			l.check(p)
			l.checkKeys(p, func(kept) bool { return true })
			p.close()

			p = startPeer(t, ours)
			p.open(dir, portless(t, ours, small))
			l.check(p)
			l.checkKeys(p, func(kept) bool { return true })
			p.close()
		})
	}
}

// command runs the tool, which must find nothing wrong.
func command(t *testing.T, exe string, args ...string) {
	t.Helper()
	if out, err := exec.Command(exe, args...).CombinedOutput(); err != nil {
		t.Errorf("mqstore %v: %v\n%s", args, err, out)
	}
}
