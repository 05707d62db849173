package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Environment of the measurement. One command:
//
//	MQSTORE_INTEROP_SPEED=1 go test -run TestSpeedBesideTheOriginal -timeout 2h -v ./conformance/interop
const (
	speedEnv  = "MQSTORE_INTEROP_SPEED"
	speedCell = "MQSTORE_INTEROP_SPEED_CELL"   // how long a cell is measured, default 5s
	speedRuns = "MQSTORE_INTEROP_SPEED_ROUNDS" // how often each, default 3
	speedDir  = "MQSTORE_INTEROP_SPEED_DIR"    // where the stores lie, default the system's directory for what is temporary
	speedOnly = "MQSTORE_INTEROP_SPEED_ONLY"   // a regular expression: the cells to measure, default all
)

// crashedSize is how much log there is to recover, at least.
const crashedSize = 512 << 20

// fastJava is how a broker is run: with the compilers that it has, and a heap that does not grow while it is measured.
var fastJava = []string{"-Xms1g", "-Xmx1g"}

// measured is what one run of a cell gave.
type measured struct {
	rate      float64 // a second: messages, or bytes of the log
	cpuMicros float64 // per message, of all processes
	memory    int64   // anonymous memory, of all processes
}

// cell is one row of the table.
type cell struct {
	name string
	unit string
	run  func(s *speed, version string) measured
}

type speed struct {
	t    *testing.T
	cell time.Duration
	dir  string // of this run
}

func (s *speed) start(version string) *Peer {
	p := startPeer(s.t, version, fastJava...)
	p.patience = 10*time.Minute + 4*s.cell
	return p
}

func listening(t testing.TB, version string, more settings) settings {
	set := settings{}
	if version != ours {
		set["haListenPort"] = freePort(t)
	}
	return set.with(more)
}

type benchAnswer struct {
	Messages, Failed, Nanos, CPUNanos, CPUTotalNanos, RssAnon, VmHWM int64
}

func (s *speed) bench(p *Peer, kind string, producers, body int, d time.Duration) (a benchAnswer) {
	p.call("bench", map[string]any{"kind": kind, "producers": producers, "bodySize": body, "ms": d.Milliseconds()}, &a)
	if a.Failed > 0 {
		s.t.Logf("%s: %d of %d puts were answered with less than PUT_OK", p.version, a.Failed, a.Messages)
	}
	return a
}

func (a benchAnswer) measured() measured {
	n := float64(max(1, a.Messages-a.Failed))
	return measured{rate: n / (float64(a.Nanos) / 1e9), cpuMicros: float64(a.CPUNanos) / 1000 / n, memory: a.RssAnon}
}

// warm is how long a process works before it is measured: the original's code is compiled meanwhile.
func (s *speed) warm() time.Duration { return max(time.Second, s.cell/2) }

func putCell(flush string, producers, body int) cell {
	return cell{fmt.Sprintf("put %s, %d B, %d producers", strings.ToLower(strings.TrimSuffix(flush, "_FLUSH")), body, producers), "msg/s", func(s *speed, version string) measured {
		p := s.start(version)
		p.open(s.dir, listening(s.t, version, settings{"flushDiskType": flush}))
		s.bench(p, "put", producers, body, s.warm())
		m := s.bench(p, "put", producers, body, s.cell).measured()
		p.kill()
		return m
	}}
}

func getCell(kind, what string, body int) cell {
	return cell{fmt.Sprintf("get, 32 a call, %s, %d B", what, body), "msg/s", func(s *speed, version string) measured {
		p := s.start(version)
		p.open(s.dir, listening(s.t, version, nil))
		s.bench(p, "put", 1, body, 2*time.Second)
		p.dispatched()
		s.bench(p, kind, 1, body, s.warm())
		m := s.bench(p, kind, 1, body, s.cell).measured()
		p.kill()
		return m
	}}
}

// recoveryCell opens a copy of one crashed directory. The original wrote it, so that neither finds what only it would have left behind.
func recoveryCell(crashed string) cell {
	return cell{"recovery of one crashed directory", "MiB/s", func(s *speed, version string) measured {
		if out, err := exec.Command("cp", "-a", "--sparse=always", crashed+"/.", s.dir).CombinedOutput(); err != nil {
			s.t.Fatalf("cp: %v\n%s", err, out)
		}
		p := s.start(version)
		o := p.open(s.dir, listening(s.t, version, nil))
		end := p.log().Max
		var u benchAnswer
		p.call("usage", nil, &u)
		p.kill()
		seconds := float64(o.LoadMicros+o.StartMicros) / 1e6
		s.t.Logf("%s: %.2f s for %d MiB", version, seconds, end>>20)
		return measured{rate: float64(end) / (1 << 20) / seconds, memory: u.RssAnon}
	}}
}

func replicationCell(producers int) cell {
	return cell{fmt.Sprintf("put sync master with one slave, 1024 B, %d producers", producers), "msg/s", func(s *speed, version string) measured {
		port := freePort(s.t)
		master, slave := s.start(version), s.start(version)
		master.open(filepath.Join(s.dir, "m"), settings{"brokerRole": "SYNC_MASTER", "haListenPort": port})
		slave.open(filepath.Join(s.dir, "s"), listening(s.t, version, settings{"brokerRole": "SLAVE", "haSendHeartbeatInterval": 200}))
		slave.call("haMaster", map[string]string{"addr": fmt.Sprintf("127.0.0.1:%d", port)}, nil)
		until(s.t, "the master has its slave", time.Minute, func() bool { return master.log().Slaves > 0 })
		s.bench(master, "put", producers, 1024, s.warm()+time.Second)
		var before, after benchAnswer
		slave.call("usage", nil, &before)
		a := s.bench(master, "put", producers, 1024, s.cell)
		slave.call("usage", nil, &after)
		m := a.measured()
		m.cpuMicros += float64(after.CPUTotalNanos-before.CPUTotalNanos) / 1000 / float64(max(1, a.Messages-a.Failed))
		m.memory += after.RssAnon
		slave.kill()
		master.kill()
		return m
	}}
}

// Both engines do the same work in turns on the same disk; the table goes into the README.
func TestSpeedBesideTheOriginal(t *testing.T) {
	if os.Getenv(speedEnv) != "1" {
		t.Skip("LEFT OUT: a measurement wants a quiet machine and " + speedEnv + "=1")
	}
	classpath(t, v4)
	length, rounds := 5*time.Second, 3
	if text := os.Getenv(speedCell); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			t.Fatalf("%s=%q is no length of time", speedCell, text)
		}
		length = d
	}
	if text := os.Getenv(speedRuns); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s=%q is no number of rounds", speedRuns, text)
		}
		rounds = n
	}
	temp := func() string {
		dir, err := os.MkdirTemp(os.Getenv(speedDir), "mqstore-speed")
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}

	crashed := temp()
	defer os.RemoveAll(crashed)
	s := &speed{t: t, cell: length, dir: crashed}
	p := s.start(v4)
	p.open(crashed, listening(t, v4, nil))
	for i := 0; i < 100 && p.log().Max < crashedSize; i++ {
		s.bench(p, "put", 1, 1024, time.Second)
	}
	p.kill()

	var cells []cell
	for _, flush := range []string{"ASYNC_FLUSH", "SYNC_FLUSH"} {
		for _, body := range []int{128, 1024} {
			for _, producers := range []int{1, 4, 64} {
				cells = append(cells, putCell(flush, producers, body))
			}
		}
	}
	for _, body := range []int{128, 1024} {
		cells = append(cells, getCell("get", "not touched", body), getCell("getCopy", "copied", body))
	}
	cells = append(cells, recoveryCell(crashed))
	for _, producers := range []int{1, 4, 64} {
		cells = append(cells, replicationCell(producers))
	}

	only, err := regexp.Compile(os.Getenv(speedOnly))
	if err != nil {
		t.Fatalf("%s: %v", speedOnly, err)
	}
	cells = slices.DeleteFunc(cells, func(c cell) bool { return !only.MatchString(c.name) })

	var table strings.Builder
	fmt.Fprintf(&table, "%s, %d CPUs, %s, %v a cell, %d rounds in turns: median (least to most)\n\n", time.Now().Format("2 January 2006"), runtime.NumCPU(), cpuModel(), length, rounds)
	table.WriteString("| work | unit | mqstore | RocketMQ 4.9.8 | mqstore / RocketMQ | CPU µs a message: mqstore / RocketMQ | memory MiB: mqstore / RocketMQ |\n|---|---|---:|---:|---:|---:|---:|\n")
	for _, c := range cells {
		results := map[string][]measured{}
		for round := range rounds {
			turn := []string{ours, v4}
			if round%2 == 1 {
				slices.Reverse(turn)
			}
			for _, version := range turn {
				_ = exec.Command("sync").Run() // what the one left to be written is not the other's
				s := &speed{t: t, cell: length, dir: temp()}
				results[version] = append(results[version], c.run(s, version))
				if err := os.RemoveAll(s.dir); err != nil {
					t.Fatal(err)
				}
			}
		}
		row := tableRow(c, results[ours], results[v4])
		t.Log(row)
		table.WriteString(row + "\n")
	}
	fmt.Printf("\n%s\n", table.String())
}

func tableRow(c cell, a, b []measured) string {
	rate := func(m measured) float64 { return m.rate }
	cpu := func(m measured) float64 { return m.cpuMicros }
	memory := func(m measured) float64 { return float64(m.memory) / (1 << 20) }
	cpus := "–"
	if median(a, cpu) > 0 {
		cpus = fmt.Sprintf("%.2f / %.2f", median(a, cpu), median(b, cpu))
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %.2f | %s | %.0f / %.0f |", c.name, c.unit, spread(a, rate), spread(b, rate), median(a, rate)/median(b, rate), cpus, median(a, memory), median(b, memory))
}

func sorted(ms []measured, of func(measured) float64) []float64 {
	var v []float64
	for _, m := range ms {
		v = append(v, of(m))
	}
	slices.Sort(v)
	return v
}

func median(ms []measured, of func(measured) float64) float64 { return sorted(ms, of)[len(ms)/2] }

func spread(ms []measured, of func(measured) float64) string {
	v := sorted(ms, of)
	if len(v) == 1 {
		return short(v[0])
	}
	return fmt.Sprintf("%s (%s–%s)", short(v[len(v)/2]), short(v[0]), short(v[len(v)-1]))
}

// short is a number with about three digits.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0f k", v/1e3)
	case v >= 1e3:
		return fmt.Sprintf("%.1f k", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(b)) {
		if name, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}
