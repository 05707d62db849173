package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// What Maven can get: see driver/pom.xml.
const (
	v4      = "4.9.8"
	v5      = "5.3.3"
	broker4 = "broker-4.9.7"
	broker5 = "broker-5.3.3"
)

// leftOut is why the original is not here: no failure of ours.
type leftOut struct{ why string }

func (e *leftOut) Error() string { return e.why }

var classpaths struct {
	sync.Mutex
	made map[string]func() (string, error)
}

// classpath is what java needs to run the driver with one of the above. It skips the test, aloud, where the original cannot be had, and fails it if the driver does not compile.
func classpath(t testing.TB, peer string) string {
	t.Helper()
	if os.Getenv("MQSTORE_INTEROP") != "1" && os.Getenv(speedEnv) != "1" {
		t.Skip("LEFT OUT: the original is asked for with MQSTORE_INTEROP=1; it needs Java 17, Maven and the network")
	}
	classpaths.Lock()
	make := classpaths.made[peer]
	if make == nil {
		make = sync.OnceValues(func() (string, error) { return buildClasspath(peer) })
		if classpaths.made == nil {
			classpaths.made = map[string]func() (string, error){}
		}
		classpaths.made[peer] = make
	}
	classpaths.Unlock()
	cp, err := make()
	var out *leftOut
	switch {
	case errors.As(err, &out):
		t.Skipf("LEFT OUT: RocketMQ %s: %s", peer, out.why)
	case err != nil:
		t.Fatal(err)
	}
	return cp
}

func buildClasspath(peer string) (string, error) {
	version, err := exec.Command("java", "-version").CombinedOutput()
	if err != nil {
		return "", &leftOut{fmt.Sprintf("no java that runs: %v", err)}
	}
	var major int
	if i := bytes.IndexByte(version, '"'); i < 0 {
		return "", &leftOut{fmt.Sprintf("java says no version: %s", version)}
	} else if _, err := fmt.Sscanf(string(version[i+1:]), "%d", &major); err != nil || major < 17 {
		return "", &leftOut{fmt.Sprintf("java is older than 17: %s", bytes.TrimSpace(version))}
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return "", &leftOut{"no mvn (Maven) in PATH"}
	}
	sum := sha256.New()
	err = filepath.WalkDir("driver", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if e != nil && e.Name() == "target" {
				return fs.SkipDir
			}
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(b), b)
		return err
	})
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "mqstore-interop", fmt.Sprintf("%s-%x", peer, sum.Sum(nil)[:8]))
	if cp, ok := readyClasspath(dir); ok {
		return cp, nil
	}
	// Built aside and renamed: two runs at a time do no harm, and half a build is never taken for one.
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	build, err := os.MkdirTemp(filepath.Dir(dir), "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(build)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	args := []string{"-q", "-B", "-f", "driver/pom.xml", "-Dpeer=" + peer, "-Dbuild.dir=" + build, "dependency:build-classpath", "-Dmdep.outputFile=" + filepath.Join(build, "classpath")}
	if !strings.HasPrefix(peer, "broker") {
		args = append(args, "compile")
	}
	out, err := exec.CommandContext(ctx, "mvn", args...).CombinedOutput()
	if bytes.Contains(out, []byte("COMPILATION ERROR")) {
		return "", fmt.Errorf("the driver does not compile with RocketMQ %s:\n%s", peer, tail(out, 4000))
	}
	if err != nil {
		return "", &leftOut{fmt.Sprintf("mvn could not get it: %v\n%s", err, tail(out, 1500))}
	}
	_ = os.RemoveAll(dir)
	if err := os.Rename(build, dir); err != nil {
		return "", err
	}
	cp, ok := readyClasspath(dir)
	if !ok {
		return "", fmt.Errorf("mvn made no class path in %s", dir)
	}
	return cp, nil
}

// readyClasspath is the class path that lies in dir, if each file that it names is still there.
func readyClasspath(dir string) (string, bool) {
	b, err := os.ReadFile(filepath.Join(dir, "classpath"))
	if err != nil {
		return "", false
	}
	jars := strings.TrimSpace(string(b))
	for jar := range strings.SplitSeq(jars, string(os.PathListSeparator)) {
		if _, err := os.Stat(jar); err != nil {
			return "", false
		}
	}
	return filepath.Join(dir, "classes") + string(os.PathListSeparator) + jars, true
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
