//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mqstore/mqstore/conformance/golden"
)

// An interrupt ends the demo, its child and its directory.
func TestInterruptStopsCleanly(t *testing.T) {
	exe, err := exec.LookPath("mqstore")
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	cmd := exec.Command(exe, "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if lines := bufio.NewScanner(out); !lines.Scan() {
		t.Fatal("no output")
	} else if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	} else {
		for lines.Scan() {
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(errs.String(), "mqstore demo: interrupted") {
		t.Errorf("%v, %q; want exit code 2 and a word of the interrupt", err, errs.String())
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A store that this user may not read: the error says who is who.
func TestNoPermissionSaysWhose(t *testing.T) {
	exe, err := exec.LookPath("mqstore")
	if err != nil {
		t.Fatal(err)
	}
	root := golden.Extract(t, "basic")
	dir := filepath.Join(root, "store")
	cmd := exec.Command(filepath.Join(root, "mqstore"), "info", dir)
	if os.Getuid() == 0 { // whom nothing is forbidden: be somebody else
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cmd.Path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	// What this test made is open to everybody, whatever the umask; where others may not go at all, nobody else can be asked.
	open := func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o755)
		if !d.IsDir() && p != cmd.Path {
			mode = 0o644
		}
		return os.Chmod(p, mode)
	}
	if err := filepath.WalkDir(root, open); err != nil {
		t.Fatal(err)
	}
	ours := true
	for p := filepath.Dir(root); p != filepath.Dir(p); p = filepath.Dir(p) {
		if ours = ours && p != filepath.Clean(os.TempDir()); ours {
			if err := os.Chmod(p, 0o755); err != nil {
				t.Fatal(err)
			}
		} else if info, err := os.Stat(p); err != nil || info.Mode()&1 == 0 && os.Getuid() == 0 {
			t.Skipf("%s is closed to other users, and nothing is forbidden to this one: set TMPDIR", p)
		}
	}
	cmd.Dir = root
	for _, closed := range []string{dir, filepath.Join(dir, "commitlog"), filepath.Join(dir, "commitlog", "00000000000000000000")} {
		info, err := os.Stat(closed)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(closed, 0); err != nil {
			t.Fatal(err)
		}
		again := *cmd
		var errs bytes.Buffer
		again.Stderr = &errs
		err = again.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(errs.String(), "permission denied") || !strings.Contains(errs.String(), "; this process runs as user id ") || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s closed: %v, %q", closed, err, errs.String())
		}
		if err := os.Chmod(closed, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}
