package consumequeue_test

import (
	"path"
	"sync"
	"testing"

	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/consumequeue"
)

// A reader who goes on behind the last unit that it was shown must not find itself beyond the end.
func TestAViewBesideTheWriterEndsAtMaxOffset(t *testing.T) {
	s := open(t, consumequeue.Options{Dir: path.Join(t.TempDir(), "consumequeue")})
	m := meta(0, 0, 100)
	if err := s.Dispatch(m); err != nil {
		t.Fatal(err)
	}
	q := s.Queue(m.Topic, m.QueueID)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				u, err := q.View(q.MaxOffset() - 1)
				if err != nil {
					t.Error(err)
					return
				}
				if shown, end := u.First+int64(u.Len()), q.MaxOffset(); shown > end {
					t.Errorf("units up to %d are shown of a queue that ends at %d", shown, end)
					u.Release()
					return
				}
				u.Release()
			}
		})
	}
	for i := range int64(effort.N(50_000, 500_000)) {
		m := meta(i+1, 100*(i+1), 100)
		if err := s.Dispatch(m); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	readers.Wait()
}
