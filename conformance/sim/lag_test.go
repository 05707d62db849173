package sim

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/conformance/memnet"
	"github.com/mqstore/mqstore/store"
)

// TestLagInTime: how far a slave is behind in time is the age of the oldest message that it lacks, also when what it has ends inside a record, whose body may hold what looks like another; and nothing when it has all.
func TestLagInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		master := start(t, n, "a:1", store.Options{})
		lag := func() store.SlaveStats {
			t.Helper()
			synctest.Wait()
			st := master.s.Stats().HA
			if len(st.Slaves) != 1 {
				t.Fatalf("%+v", st)
			}
			return st.Slaves[0]
		}
		c, err := n.Dial(t.Context(), "", "a:1")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for b := make([]byte, 64<<10); ; {
				if _, err := c.Read(b); err != nil {
					return
				}
			}
		}()
		defer c.Close()
		if s := lag(); s.Reported || s.LagTime != 0 {
			t.Errorf("before its first report: %+v", s)
		}
		var ends []int64
		var stored []time.Time
		v := []byte(nil)
		for i := range 4 {
			// The second one's body is a record, and the third one's.
			r := put(t, master.s, message("T", int32(i), string(v)))
			ends, stored = append(ends, r.PhyOffset+int64(r.Size)), append(stored, time.Now())
			view, err := master.s.CommitLogData(r.PhyOffset, 0)
			if err != nil {
				t.Fatal(err)
			}
			v = bytes.Clone(view.Bytes[:r.Size])
			view.Release()
			time.Sleep(time.Second)
		}
		report := func(phyOffset int64) {
			var b [8]byte
			for i := range b {
				b[i] = byte(phyOffset >> (56 - 8*i))
			}
			if _, err := c.Write(b[:]); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []struct {
			ack   int64
			since time.Time
		}{
			{0, stored[0]},
			{ends[0], stored[1]},
			{ends[0] + 10, stored[2]}, // inside the second: nearly
			{ends[2], stored[3]},
			{ends[3] - 20, stored[3]}, // inside the last
		} {
			report(want.ack)
			if s := lag(); s.Ack != want.ack || s.LagTime != time.Since(want.since) {
				t.Errorf("ack %d: %+v, want a lag of %v", want.ack, s, time.Since(want.since))
			}
		}
		report(ends[3])
		if s := lag(); s.LagTime != 0 || s.Lag != 0 {
			t.Errorf("%+v", s)
		}
		time.Sleep(10 * time.Second)
		if s := lag(); s.LagTime != 0 {
			t.Errorf("idle for long: %+v", s)
		}
		put(t, master.s, message("T", 0, "new"))
		time.Sleep(3 * time.Second)
		if s := lag(); s.LagTime != 3*time.Second {
			t.Errorf("%+v", s)
		}
	})
}
