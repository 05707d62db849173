//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The signal of a terminal ends a run that would take minutes, and its directory.
func TestSignalledBenchLeavesNothing(t *testing.T) {
	exe, err := exec.LookPath("mqstore")
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	cmd := exec.Command(exe, "bench", "--duration", "1h", "--size", "1", "--json")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	var out strings.Builder
	cmd.Stdout = &out
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	errs := bufio.NewReader(pipe)
	first, err := errs.ReadString('\n') // it works, then
	if err != nil || !strings.HasPrefix(first, "mqstore: about ") {
		t.Errorf("%q, %v", first, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(errs)
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || string(rest) != "mqstore bench: interrupted\n" || out.Len() > 0 {
		t.Errorf("%v, %q, %q; want exit code 2 and a word of the interrupt", err, rest, out.String())
	}
	if left := names(t, tmp); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}
