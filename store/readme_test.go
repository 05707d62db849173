package store_test

import (
	"os"
	"strings"
	"testing"
)

// What README.md shows in Go is an example that runs: its lines stand one behind the other in example_use_test.go.
func TestReadmeShowsAnExampleThatRuns(t *testing.T) {
	text := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(b), "\n")
		for i, l := range lines {
			lines[i] = strings.TrimSpace(l)
		}
		return strings.Join(lines, "\n")
	}
	_, rest, ok := strings.Cut(text("../README.md"), "```go\n")
	code, _, closed := strings.Cut(rest, "```")
	if !ok || !closed || strings.Count(code, "\n") < 10 {
		t.Fatalf("README.md shows no Go, or little: %q", code)
	}
	if !strings.Contains(text("example_use_test.go"), code) {
		t.Fatalf("README.md shows what is in no example:\n%s", code)
	}
}
