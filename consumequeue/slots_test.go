package consumequeue

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/record"
)

func slotsOf(p record.Properties, flag record.SysFlag, multi bool) (s []string) {
	m := &record.Meta{Magic: record.MagicV1, Topic: "T", QueueID: 3, QueueOffset: 7, TagsCode: 9, SysFlag: flag, Properties: p}
	for at := range Slots(m, multi) {
		s = append(s, fmt.Sprintf("%s-%d@%d:%d", at.Topic, at.QueueID, at.QueueOffset, at.TagsCode))
	}
	return s
}

func TestSlotsAreTheRecordsOwnAndThoseThatMultiDispatchNames(t *testing.T) {
	both := func(names, offsets string) record.Properties {
		return record.NewProperties(record.PropertyMultiDispatch, names, record.PropertyMultiQueueOffset, offsets)
	}
	for _, c := range []struct {
		what  string
		p     record.Properties
		flag  record.SysFlag
		multi bool
		want  []string
	}{
		{"plain", nil, 0, true, []string{"T-3@7:9"}},
		{"prepared", both("A", "1"), record.SysFlag(record.TransactionPrepared), true, nil},
		{"rollback", nil, record.SysFlag(record.TransactionRollback), true, nil},
		{"commit", nil, record.SysFlag(record.TransactionCommit), true, []string{"T-3@7:9"}},
		{"light queues have id 0", both("%LMQ%a,plain", "4,5"), 0, true, []string{"T-3@7:9", "%LMQ%a-0@4:9", "plain-3@5:9"}},
		{"off", both("%LMQ%a,plain", "4,5"), 0, false, []string{"T-3@7:9"}},
		{"empty items at the end do not count", both("A,B,,", "1,2,"), 0, true, []string{"T-3@7:9", "A-3@1:9", "B-3@2:9"}},
		{"different counts", both("A,B", "1"), 0, true, []string{"T-3@7:9"}},
		{"no offset (5.3.3 leaves it out)", both("plain,%LMQ%a", ",6"), 0, true, []string{"T-3@7:9", "%LMQ%a-0@6:9"}},
		{"no number", both("A,B,C", "x,-1,2"), 0, true, []string{"T-3@7:9", "C-3@2:9"}},
		{"no directory", both("../x,.,,a/b,ok", "1,2,3,4,5"), 0, true, []string{"T-3@7:9", "ok-3@5:9"}},
		{"one property only", record.NewProperties(record.PropertyMultiDispatch, "A"), 0, true, []string{"T-3@7:9"}},
	} {
		if d := cmp.Diff(c.want, slotsOf(c.p, c.flag, c.multi)); d != "" {
			t.Errorf("%s (- want, + got):\n%s", c.what, d)
		}
	}
}

func FuzzSlots(f *testing.F) {
	f.Add([]byte("INNER_MULTI_DISPATCH\x01%LMQ%a,b\x02INNER_MULTI_QUEUE_OFFSET\x011,2"))
	f.Fuzz(func(t *testing.T, p []byte) {
		m := &record.Meta{Magic: record.MagicV1, Topic: "T", Properties: p}
		own := true
		for at := range Slots(m, true) {
			if !own && (CheckName(at.Topic, at.QueueID) != nil || at.QueueOffset < 0) {
				t.Fatalf("%+v", at)
			}
			own = false
		}
	})
}
