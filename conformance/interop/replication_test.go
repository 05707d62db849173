package interop

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pair is a master and its slave, of which one is ours, with a network between.
type pair struct {
	t             testing.TB
	net           *proxy
	master, slave *Peer
	dirs          [2]string // of master and slave
	set           [2]settings
	l             *ledger
}

func newPair(t testing.TB, master, slave, role string) *pair {
	port := freePort(t)
	all := patient.with(settings{"mappedFileSizeCommitLog": 64 << 10, "mappedFileSizeConsumeQueue": 20 * 4000, "maxHashSlotNum": 500, "maxIndexNum": 2000, "haSendHeartbeatInterval": 200})
	x := &pair{t: t, net: newProxy(t, fmt.Sprintf("127.0.0.1:%d", port)), dirs: [2]string{t.TempDir(), t.TempDir()}, l: newLedger(t, 11)}
	x.set[0] = all.with(settings{"brokerRole": role, "haListenPort": port})
	if master == v5 {
		x.set[0]["inSyncReplicas"] = 2 // with the default of 1 a SYNC_MASTER of 5.x waits for nobody
	}
	x.set[1] = all.with(settings{"brokerRole": "SLAVE", "haListenPort": freePort(t), "offsetCheckInSlave": true})
	x.startMaster(master)
	x.startSlave(slave)
	return x
}

func (x *pair) startMaster(version string) {
	x.t.Helper()
	x.master = startPeer(x.t, version)
	x.master.open(x.dirs[0], x.set[0])
}

func (x *pair) startSlave(version string) {
	x.t.Helper()
	x.slave = startPeer(x.t, version)
	x.slave.open(x.dirs[1], x.set[1])
	x.slave.call("haMaster", map[string]string{"addr": x.net.addr()}, nil)
}

// caughtUp waits until the slave has the whole log and the master knows it.
func (x *pair) caughtUp() {
	x.t.Helper()
	until(x.t, "the slave has the master's log", 2*time.Minute, func() bool {
		m, s := x.master.log(), x.slave.log()
		return m.Max == s.Max && m.Acked == m.Max && m.Slaves > 0
	})
}

func (x *pair) put(n int, atRisk bool) {
	x.t.Helper()
	x.l.atRisk = atRisk
	x.l.put(x.master, n)
}

// equal compares what lies on the two disks once both are closed: the log and the units, byte for byte.
func (x *pair) equal() {
	x.t.Helper()
	end := x.master.log().Max
	x.slave.close()
	x.master.close()
	for _, part := range []string{"commitlog", "consumequeue"} {
		a, b := filesOf(x.t, filepath.Join(x.dirs[0], part)), filesOf(x.t, filepath.Join(x.dirs[1], part))
		if len(a) == 0 {
			x.t.Fatalf("the master has no %s", part)
		}
		for name := range b {
			if _, ok := a[name]; !ok && len(b[name]) > 0 {
				x.t.Errorf("%s/%s is the slave's alone", part, name)
			}
		}
		for name, want := range a {
			got := b[name]
			if part == "commitlog" {
				var begin int64
				if _, err := fmt.Sscanf(name, "%d", &begin); err != nil {
					x.t.Fatal(err)
				}
				n := max(0, min(end-begin, 64<<10))
				want, got = head(want, n), head(got, n)
			}
			if !bytes.Equal(want, got) {
				x.t.Errorf("%s/%s: %d bytes of the master and %d of the slave differ", part, name, len(want), len(got))
			}
		}
	}
}

func head(b []byte, n int64) []byte { return b[:min(int64(len(b)), n)] }

// filesOf reads every file below dir, without the zeros at its end: files are made ahead, and by each engine in its own sizes.
func filesOf(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+string(filepath.Separator))] = bytes.TrimRight(b, "\x00")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A slave holds its master's log and queues, whichever of the two is the original's, and whatever happens on the way.
func TestReplicationBetweenTheEngines(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{v4, ours}, {ours, v4}, {v5, ours}, {ours, v5}} {
		for _, role := range []string{"ASYNC_MASTER", "SYNC_MASTER"} {
			t.Run(fmt.Sprintf("%s-%s-of-%s", c[0], role, c[1]), func(t *testing.T) {
				t.Parallel()
				x := newPair(t, c[0], c[1], role)
				x.put(1, true) // nobody may have reported yet
				x.caughtUp()

				x.put(120, false)
				x.caughtUp()
				x.l.check(x.slave)

				for _, kill := range []bool{false, true} {
					x.slave.end(kill)
					if role == "ASYNC_MASTER" {
						x.put(40, true) // of a SYNC_MASTER each could wait for its whole timeout
					}
					x.startSlave(c[1])
					x.caughtUp()
					x.put(20, false)
				}

				for _, kill := range []bool{false, true} {
					x.master.end(kill)
					x.startMaster(c[0])
					x.put(1, true)
					x.caughtUp()
					x.put(20, false)
				}
				x.caughtUp()

				x.net.cutAfter(int64(12+x.l.rng.IntN(40)), int64(x.l.rng.IntN(12)), int64(5000+x.l.rng.IntN(5000)))
				for x.net.bad() > 0 {
					x.put(5, true)
				}
				x.put(20, true)
				x.caughtUp()
				x.put(20, false)
				x.caughtUp()

				x.l.check(x.slave)
				x.l.check(x.master)
				x.equal()
			})
		}
	}
}
