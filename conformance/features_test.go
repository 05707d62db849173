package conformance

import (
	"flag"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestEachTestOfTheOriginalIsALawOrHasAReason(t *testing.T) {
	ids := named(Laws())
	rows := map[string]bool{}
	n498, n533 := 0, 0
	for _, f := range features {
		anyNone := false
		for _, test := range f.tests {
			name := f.class + "." + test
			if rows[name] {
				t.Errorf("%s is there twice", name)
			}
			rows[name] = true
			if f.in&in498 != 0 {
				n498++
			}
			if f.in&in533 != 0 {
				n533++
			}
			if ids[name] == nil {
				anyNone = true
				if f.why == "" {
					t.Errorf("%s is named by no law, and has no reason", name)
				}
			}
		}
		if !anyNone && f.why != "" {
			t.Errorf("%s: all of %v are laws: the reason is not needed", f.class, f.tests)
		}
	}
	if n498 != 102 || n533 != 248 {
		t.Errorf("%d tests of 4.9.8 and %d of 5.3.3, want 102 and 248", n498, n533)
	}
	for name, laws := range ids {
		if !rows[name] {
			t.Errorf("%v name %s, which is no test of the original", laws, name)
		}
	}
}

var update = flag.Bool("update", false, "write the list of doc.go anew")

const listHead = "// Tests of the original (RocketMQ 4.9.8 and 5.3.3) that are not named by a law, and why:\n//\n"

// The list in doc.go is the table's. go test -run TestDocListsWhatIsNoLaw -update writes it.
func TestDocListsWhatIsNoLaw(t *testing.T) {
	if *update {
		b, err := os.ReadFile("doc.go")
		if err != nil {
			t.Fatal(err)
		}
		head, _, ok := strings.Cut(string(b), listHead)
		if !ok {
			t.Fatalf("doc.go has no line %q", listHead)
		}
		text := head + listHead
		for _, l := range noLaws(Laws()) {
			text += "//   - " + l + "\n"
		}
		if err := os.WriteFile("doc.go", []byte(text+"package conformance\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, b := range new(comment.Parser).Parse(f.Doc.Text()).Content {
		l, ok := b.(*comment.List)
		if !ok {
			continue
		}
		for _, i := range l.Items {
			text := string(new(comment.Printer).Text(&comment.Doc{Content: i.Content}))
			have = append(have, strings.Join(strings.Fields(text), " "))
		}
	}
	if want := noLaws(Laws()); !slices.Equal(have, want) {
		t.Errorf("doc.go lists\n%s\nwant\n%s\ngo test -run TestDocListsWhatIsNoLaw -update writes it", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

func TestLawsAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range Laws() {
		if seen[l.ID] {
			t.Errorf("%s is there twice", l.ID)
		}
		seen[l.ID] = true
		if area, number, ok := strings.Cut(l.ID, "-"); !ok || area == "" || len(number) != 3 {
			t.Errorf("%q is no ID", l.ID)
		}
		if !strings.HasSuffix(l.Says, ".") || l.Why == "" || strings.HasSuffix(l.Why, ".") || l.Source == "" || l.Check == nil {
			t.Errorf("%s has no sentence, reason, source or check: %q, %q, %q", l.ID, l.Says, l.Why, l.Source)
		}
		if l.Config.Now != nil {
			t.Errorf("%s sets Now; it is Clock that asks for one", l.ID)
		}
	}
}
