package workload_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/mqstore/mqstore/conformance/workload"
)

var file = flag.String("workload", "", "TestReplay runs the workload in this file, and shows every answer")

// Workloads that once failed: they stay. With -workload, one from anywhere:
//
//	go test ./conformance/workload -run '^TestReplay$' -v -workload failed.workload
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.workload")
	if err != nil || len(files) == 0 {
		t.Fatalf("no workloads in testdata: %v", err)
	}
	if *file != "" {
		files = []string{*file}
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			w, err := workload.Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if *file != "" {
				s, err := openEngine(w.Setup)
				if err != nil {
					t.Fatal(err)
				}
				for i, a := range workload.Execute(ctx, s, w) {
					t.Logf("%4d  %s\n      -> %s", i+1, w.Ops[i], a)
				}
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
			d, err := engineAsModel.Run(ctx, w)
			if err != nil {
				t.Fatal(err)
			}
			if d != nil {
				t.Error(d)
			}
		})
	}
}
