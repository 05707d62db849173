package golden

import (
	"archive/tar"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

//go:embed testdata/*.tar.zst
var archives embed.FS

const archiveSuffix = ".tar.zst"

// Names lists the golden directories in alphabetical order.
func Names() []string {
	entries, err := archives.ReadDir("testdata")
	if err != nil {
		panic(err) // embedded: cannot fail
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), archiveSuffix))
	}
	return names
}

// Extract unpacks the golden directory name into a temporary directory of the test and returns its path: manifest.json, store/ (or store-before/ and store-after/, or master/ and slave/).
// Files and directories are writable and keep their modification times.
func Extract(t testing.TB, name string) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	times := map[string]time.Time{} // directories: set last, since each new file changes them
	err := each(name, func(h *tar.Header, r io.Reader) error {
		p, err := filepath.Localize(path.Clean(h.Name))
		if err != nil {
			return fmt.Errorf("archive entry %q: %w", h.Name, err)
		}
		p = filepath.Join(root, p)
		if h.FileInfo().IsDir() {
			times[p] = h.ModTime
			return os.MkdirAll(p, 0o755)
		}
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(p, b, 0o644); err != nil {
			return err
		}
		return os.Chtimes(p, h.ModTime, h.ModTime)
	})
	if err != nil {
		t.Fatalf("extract golden %s: %v", name, err)
	}
	for p, mt := range times {
		if err := os.Chtimes(p, mt, mt); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// ReadFile returns one file of the golden directory name, such as "store/checkpoint", without unpacking the rest.
func ReadFile(t testing.TB, name, file string) []byte {
	t.Helper()
	b, err := readFile(name, file)
	if err != nil {
		t.Fatalf("golden %s: %v", name, err)
	}
	return b
}

func readFile(name, file string) (b []byte, err error) {
	found := errors.New("found")
	err = each(name, func(h *tar.Header, r io.Reader) error {
		if h.FileInfo().IsDir() || path.Clean(h.Name) != file {
			return nil
		}
		if b, err = io.ReadAll(r); err != nil {
			return err
		}
		return found
	})
	switch {
	case errors.Is(err, found):
		return b, nil
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("read %s: %w", file, fs.ErrNotExist)
}

// each calls fn for every entry of the archive, in order, until it returns an error.
func each(name string, fn func(h *tar.Header, r io.Reader) error) error {
	f, err := archives.Open("testdata/" + name + archiveSuffix)
	if err != nil {
		return fmt.Errorf("no golden directory %q (have %s): %w", name, strings.Join(Names(), " "), err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	for tr := tar.NewReader(z); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fn(h, tr); err != nil {
			return err
		}
	}
}
