package layout_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	root   = "../.."
	module = "github.com/mqstore/mqstore/"
)

// topLevel is everything that may lie in the root, beside dot-files.
var topLevel = []string{
	"LICENSE", "README.md", "go.mod", "go.sum",
	"checkpoint", "commitlog", "conformance", "consumequeue", "dispatch", "ha", "index", "store",
}

var (
	floor0 = []string{"commitlog/record", "commitlog/mappedfile", "commitlog/invariant"}
	floor1 = []string{"index/indexfile", "ha/remoting"}
	floor2 = []string{"commitlog", "consumequeue", "index", "checkpoint", "dispatch", "ha", "ha/metasync"}
	below3 = slices.Concat(floor0, floor1, floor2)

	// Whole-system tests may use everything that is not internal to the store.
	whole = slices.Concat(below3, []string{
		"commitlog/mappedfile/faultfs", "store", "store/storeprom",
		"conformance", "conformance/model", "conformance/workload", "conformance/golden", "conformance/effort", "conformance/memnet",
	})
)

// mayImport says which packages of ours the non-test files of each package may import: an arrow may only point down, and siblings never meet.
var mayImport = map[string][]string{
	// Floor 0.
	"commitlog/record":     nil,
	"commitlog/mappedfile": nil,
	"commitlog/invariant":  nil,
	// Floor 1.
	"commitlog/mappedfile/faultfs": {"commitlog/mappedfile"},
	"index/indexfile":              nil,
	"ha/remoting":                  nil,
	// Floor 2.
	"commitlog":    floor0,
	"consumequeue": floor0,
	"index":        {"commitlog/record", "commitlog/invariant"},
	"checkpoint":   {"commitlog/mappedfile"},
	"dispatch":     {"commitlog/record"},
	"ha":           nil,
	"ha/metasync":  {"ha/remoting"},
	// Floor 3.
	"store":                   slices.Concat(below3, []string{"store/internal/recovery"}),
	"store/internal/recovery": below3,
	// Floor 4.
	"store/storeprom":       {"store"},
	"store/internal/repair": slices.Concat(below3, []string{"store/internal/recovery"}),
	"conformance":           {"store", "commitlog/record"},
	"conformance/model":     {"store", "commitlog/record"},
	"conformance/workload":  {"store", "commitlog/record"},
	// Floor 5. The command prints what store answers, which is record's types. A node that it serves has the broker's part of replication beside its store: metadata and registration.
	"store/cmd/mqstore":   {"store", "store/storeprom", "store/internal/repair", "commitlog/record", "ha/metasync", "ha/remoting"},
	"conformance/crash":   whole,
	"conformance/sim":     whole,
	"conformance/interop": whole,
	// Helpers of tests, and the rules.
	"conformance/golden": nil,
	"conformance/effort": nil,
	"conformance/memnet": nil,
	"conformance/layout": nil,
}

// A test file may also import these; and, if its package is external (package x_test), those of testsMayImportOutside.
var (
	testsMayImport        = []string{"commitlog/mappedfile/faultfs", "conformance/golden", "conformance/effort", "conformance/memnet"}
	testsMayImportOutside = []string{"conformance", "conformance/model", "conformance/workload"}
)

// libraries says where an outside library may be imported. A nil list: test files, and the packages of conformance. Libraries that are not named may be used anywhere.
var libraries = map[string][]string{
	"github.com/alecthomas/kong":      {"store/cmd/mqstore"},
	"github.com/spf13/cobra":          {"store/cmd/mqstore"},
	"github.com/schollz/progressbar":  {"store/cmd/mqstore"},
	"github.com/dustin/go-humanize":   {"store/cmd/mqstore"},
	"github.com/jedib0t/go-pretty":    {"store/cmd/mqstore"},
	"github.com/prometheus/":          {"store/storeprom", "store/cmd/mqstore"},
	"github.com/hashicorp/go-hclog":   {"store", "store/cmd/mqstore"}, // below store there are results and errors
	"github.com/cockroachdb/pebble":   {"index"},
	"github.com/edsrzf/mmap-go":       {"commitlog/mappedfile"},
	"pgregory.net/rapid":              nil,
	"github.com/anishathalye/":        nil,
	"github.com/google/go-cmp":        nil,
	"github.com/rogpeppe/go-internal": nil,
	"go.uber.org/goleak":              nil,
	"github.com/stretchr/testify":     {}, // go-cmp does it
	"github.com/cespare/xxhash":       {"index", "commitlog"},
	"github.com/klauspost/compress":   {"commitlog/record", "store/internal/repair", "ha", "conformance/golden"},
	"github.com/pierrec/lz4":          {"commitlog/record"},
	"golang.org/x/time":               {"ha", "store", "store/internal/repair", "store/cmd/mqstore"},
}

// goFile is one parsed file of the module.
type goFile struct {
	name string // with slashes, from the root
	pkg  string // directory, the same way
	ast  *ast.File
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

func (f goFile) imports(t *testing.T) (paths []string) {
	for _, s := range f.ast.Imports {
		p, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			t.Fatalf("%s: import %s: %v", f.name, s.Path.Value, err)
		}
		paths = append(paths, p)
	}
	return paths
}

// walk calls fn for every regular file of the module: no dot-directories, testdata or modules of their own.
func walk(t *testing.T, fn func(name string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case e.IsDir() && rel != ".":
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil || e.Name() == "testdata" || e.Name()[0] == '.' && rel != ".ci" {
				return fs.SkipDir
			}
		case e.Type().IsRegular() && rel != ".git": // a file in a linked worktree
			fn(rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func goFiles(t *testing.T) (files []goFile) {
	t.Helper()
	fset := token.NewFileSet()
	walk(t, func(name string) {
		if path.Ext(name) != ".go" {
			return
		}
		f, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, goFile{name, path.Dir(name), f})
	})
	if len(files) < 10 {
		t.Fatalf("found only %d Go files: the test looks at the wrong directory", len(files))
	}
	return files
}

func TestTopLevelIsClosed(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, e := range entries {
		have[e.Name()] = true
		if e.Name()[0] != '.' && !slices.Contains(topLevel, e.Name()) {
			t.Errorf("%s: a stranger at the top level", e.Name())
		}
	}
	for _, name := range []string{"LICENSE", "README.md", "go.mod", "go.sum", ".ci"} {
		if !have[name] {
			t.Errorf("%s is missing at the top level", name)
		}
	}
}

func TestArrowsPointDown(t *testing.T) {
	for _, f := range goFiles(t) {
		allowed, known := mayImport[f.pkg]
		if !known {
			t.Errorf("%s: package %s has no row in the table of floors", f.name, f.pkg)
			continue
		}
		for _, p := range f.imports(t) {
			ours, ok := strings.CutPrefix(p, module)
			if !ok {
				continue
			}
			if err := checkImport(f, allowed, ours); err != nil {
				t.Error(err)
			}
		}
	}
}

func checkImport(f goFile, allowed []string, ours string) error {
	if slices.Contains(allowed, ours) {
		return nil
	}
	if f.isTest() {
		outside := strings.HasSuffix(f.ast.Name.Name, "_test")
		if slices.Contains(testsMayImport, ours) || outside && (ours == f.pkg || slices.Contains(testsMayImportOutside, ours)) {
			return nil
		}
	}
	return fmt.Errorf("%s: %s must not import %s", f.name, f.pkg, ours)
}

// The table itself must not allow an arrow that points up or a cycle.
func TestTheTableOfFloorsHasNoCycle(t *testing.T) {
	var visit func(pkg string, above []string)
	visit = func(pkg string, above []string) {
		if slices.Contains(above, pkg) {
			t.Fatalf("cycle: %s", strings.Join(append(above, pkg), " -> "))
		}
		next, known := mayImport[pkg]
		if !known {
			t.Errorf("%s may be imported but has no row", pkg)
		}
		for _, p := range next {
			visit(p, append(slices.Clone(above), pkg))
		}
	}
	for pkg := range mayImport {
		visit(pkg, nil)
	}
}

func TestLibrariesStayWhereTheyBelong(t *testing.T) {
	for _, f := range goFiles(t) {
		if isTagged(f, "depstmp") {
			continue
		}
		for _, p := range f.imports(t) {
			for lib, allowed := range libraries {
				if !strings.HasPrefix(p, lib) || slices.Contains(allowed, f.pkg) {
					continue
				}
				forTests := allowed == nil && strings.HasPrefix(f.pkg, "conformance")
				if forTests || f.isTest() && (allowed == nil || len(allowed) > 0) {
					continue
				}
				t.Errorf("%s: %s is not for package %s (allowed: %s)", f.name, p, f.pkg, strings.Join(allowed, " "))
			}
		}
	}
}

func isTagged(f goFile, tag string) bool {
	for _, g := range f.ast.Comments {
		for _, c := range g.List {
			if c.Text == "//go:build "+tag {
				return true
			}
		}
	}
	return false
}

// Every package says in doc.go what it is, or in the file of its own name. A command says it in main.go; commitlog/invariant has two files, of which each build sees one.
func TestEveryPackageHasDoc(t *testing.T) {
	documented, names := map[string]bool{}, map[string]string{}
	for _, f := range goFiles(t) {
		if f.isTest() || isTagged(f, "depstmp") {
			continue
		}
		names[f.pkg] = f.ast.Name.Name
		base := path.Base(f.name)
		if f.ast.Doc == nil {
			continue
		}
		want := "Package " + f.ast.Name.Name
		switch {
		case f.ast.Name.Name == "main" && (base == "main.go" || base == "doc.go"):
			documented[f.pkg] = true
		case f.pkg == "commitlog/invariant" || base == "doc.go" || base == f.ast.Name.Name+".go":
			if !strings.HasPrefix(f.ast.Doc.Text(), want) {
				t.Errorf("%s: the package comment must begin with %q", f.name, want)
			}
			documented[f.pkg] = true
		}
	}
	for pkg := range names {
		if !documented[pkg] {
			t.Errorf("%s has no package comment in doc.go", pkg)
		}
	}
}

var (
	unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)
	machine    = regexp.MustCompile(`(^|[\s"'` + "`" + `(=:])/(ho` + `me|Us` + `ers|ro` + `ot|wo` + `rk|tm` + `p)/[\w.-]+`)
	// A broker's configuration file names such a directory.
	notOurs = []string{"/home/rocketmq", "/home/admin"}
)

func TestNothingUnfinishedNorOfOneMachine(t *testing.T) {
	walk(t, func(name string) {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "go.sum" || !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
			return
		}
		n := 0
		for line := range bytes.Lines(b) {
			n++
			if unfinished.Match(line) {
				t.Errorf("%s:%d: unfinished: %s", name, n, bytes.TrimSpace(line))
			}
			if m := machine.Find(line); m != nil && !slices.ContainsFunc(notOurs, func(s string) bool { return bytes.Contains(m, []byte(s)) }) {
				t.Errorf("%s:%d: a path of one machine: %s", name, n, bytes.TrimSpace(line))
			}
		}
	})
}

func TestAStrayArrowIsFound(t *testing.T) {
	file := func(name, pkgName string) goFile {
		return goFile{name, path.Dir(name), &ast.File{Name: ast.NewIdent(pkgName)}}
	}
	for _, c := range []struct {
		file goFile
		ours string
		ok   bool
	}{
		{file("commitlog/append.go", "commitlog"), "commitlog/record", true},
		{file("commitlog/append.go", "commitlog"), "consumequeue", false},
		{file("commitlog/append.go", "commitlog"), "store", false},
		{file("commitlog/append.go", "commitlog"), "conformance/golden", false},
		{file("commitlog/append_test.go", "commitlog"), "conformance/golden", true},
		{file("commitlog/append_test.go", "commitlog"), "commitlog/mappedfile/faultfs", true},
		{file("commitlog/append_test.go", "commitlog_test"), "commitlog", true},
		{file("store/get_test.go", "store"), "conformance/model", false},
		{file("store/get_test.go", "store_test"), "conformance/model", true},
		{file("ha/master.go", "ha"), "commitlog/record", false},
	} {
		err := checkImport(c.file, mayImport[c.file.pkg], c.ours)
		if (err == nil) != c.ok {
			t.Errorf("%s (package %s) imports %s: %v", c.file.name, c.file.ast.Name.Name, c.ours, err)
		}
	}
}
