package sim

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

// enough is within how many seeds a planted bug must be found.
const enough = 1000

// plant is a bug that a store's options can have.
type plant struct {
	name string
	into func(o *store.Options)
}

var plants = []*plant{
	{"a slave acknowledges a frame when it has seen its header", func(o *store.Options) {
		dial := o.HA.Dial
		o.HA.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if err != nil || strings.HasSuffix(address, "+") {
				return c, err
			}
			return &hasty{Conn: c}, nil
		}
	}},
	{"a slave acknowledges what is not on its disk", func(o *store.Options) { o.HA.ReportFlushed = false }},
	{"consumers see what no slave has", func(o *store.Options) { o.ReadUncommitted = true }},
}

// hasty is a slave's connection that acknowledges for it, as soon as it can know how long a frame is.
type hasty struct {
	net.Conn
	header []byte
	body   int
}

func (h *hasty) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	for p := b[:n]; len(p) > 0; {
		if h.body > 0 {
			k := min(h.body, len(p))
			h.body -= k
			p = p[k:]
			continue
		}
		k := min(12-len(h.header), len(p))
		h.header = append(h.header, p[:k]...)
		p = p[k:]
		if len(h.header) == 12 {
			h.body = int(binary.BigEndian.Uint32(h.header[8:]))
			var report [8]byte
			binary.BigEndian.PutUint64(report[:], binary.BigEndian.Uint64(h.header)+uint64(h.body))
			h.header = h.header[:0]
			if h.body > 0 {
				h.Conn.Write(report[:])
			}
		}
	}
	return n, err
}

// TestPlantedBugsAreFound: the simulation finds what it is there to find.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, bug := range plants {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(enough) {
				if o := simulate(t, seed+1, bug); len(o.fails) > 0 {
					t.Logf("found with seed %d: %s", o.seed, o.fails[0])
					return
				}
			}
			t.Errorf("not found within %d seeds", enough)
		})
	}
}

// mutant is a bug in the engine's own code.
type mutant struct {
	name  string
	edits []edit
}

type edit struct{ file, old, new string }

var mutants = []mutant{
	{"the master takes what it has sent for acknowledged", []edit{{"ha/conn.go", "		c.hold(phyOffset)\n		return nil", "		c.hold(c.sent.Load())\n		return nil"}}},
	{"a slave does not dispatch a record that came in two parts", []edit{
		{"store/raw.go", "		s.rawPart = s.rawPart[:0]\n		p = p[n:]", "		split = end\n		s.rawPart = s.rawPart[:0]\n		p = p[n:]"},
		{"store/wire.go", "	if m.PhyOffset >= s.recovered {", "	if m.PhyOffset >= s.recovered && m.PhyOffset != split {"},
		{"store/gate.go", "const gateShut", "var split int64 = -1\n\nconst gateShut"},
	}},
	{"a slave joins the beginning of its old master's record to the rest of its new one's", []edit{{"store/replication.go", "	s.forgetPart()\n	end := ", "	end := "}}},
}

var foundWith = regexp.MustCompile(`broken with seed (\d+)`)

// TestBugsInTheEngineAreFound builds the simulation with the engine broken on purpose, and has it find that.
func TestBugsInTheEngineAreFound(t *testing.T) {
	if m := effort.Current(); m != effort.Full && m != effort.Endless {
		t.Skip("it compiles the engine once for each bug: MQSTORE_EFFORT=full")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			dir := t.TempDir()
			overlay := struct{ Replace map[string]string }{map[string]string{}}
			for i, e := range m.edits {
				path := filepath.Join(root, filepath.FromSlash(e.file))
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Count(string(b), e.old) != 1 {
					t.Fatalf("%s has changed: it does not contain %q once: say anew what to break", e.file, e.old)
				}
				broken := filepath.Join(dir, fmt.Sprintf("%d.go", i))
				if err := os.WriteFile(broken, []byte(strings.Replace(string(b), e.old, e.new, 1)), 0o666); err != nil {
					t.Fatal(err)
				}
				overlay.Replace[path] = broken
			}
			b, err := json.Marshal(overlay)
			if err != nil {
				t.Fatal(err)
			}
			list := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(list, b, 0o666); err != nil {
				t.Fatal(err)
			}
			binary := filepath.Join(dir, "sim.test")
			if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", list, "-o", binary, ".").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			run := exec.CommandContext(t.Context(), binary, "-test.run", "TestSimulation$", "-test.timeout", "4m")
			run.Env = append(os.Environ(), "MQSTORE_EFFORT=full", "MQSTORE_SEED=")
			out, err := run.CombinedOutput()
			found := foundWith.FindSubmatch(out)
			if err == nil || found == nil {
				t.Fatalf("not found: %v\n%.3000s", err, out)
			}
			seed, err := strconv.Atoi(string(found[1]))
			if err != nil || seed > enough {
				t.Errorf("found with seed %d only", seed)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			for i, l := range lines {
				if strings.Contains(l, "go test ./conformance/sim") && i+2 < len(lines) {
					t.Logf("found with seed %d: %s", seed, strings.TrimSpace(lines[i+2]))
					break
				}
			}
		})
	}
}
