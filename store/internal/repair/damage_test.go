package repair

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/consumequeue"
)

// A damage is something that is done to a store that was whole.
type damage struct {
	name string
	base string // the store: a golden directory, or "ours"

	// do damages the store, and says what Check must find: briefs of findings (see brief), a "*" at the end for any place.
	do func(s *site) []string

	// also are kinds of findings that follow from the damage.
	also []Kind

	// mend is the verb that mends what do says; each finding names it, or another one that is needed as well.
	mend string
}

// site is a copy of a store that is going to be damaged. Errors end the test.
type site struct {
	testing.TB
	dir     string
	segment int64
	records []lying // in log order
}

// lying is a record where it lies.
type lying struct {
	QueueName
	phyOffset, queueOffset int64
	size                   int
	body                   int // where its body begins, within the record
	unit                   bool
}

func (r lying) end() int64 { return r.phyOffset + int64(r.size) }

// bases are whole stores, made once a test.
type bases struct {
	testing.TB
	mu     sync.Mutex
	stores map[string]string
}

// newSite is a site of a base that is made for it.
func newSite(t testing.TB, base string) *site { return (&bases{TB: t}).site(t, base) }

// site is a fresh copy of a base.
func (b *bases) site(t testing.TB, base string) *site {
	t.Helper()
	b.mu.Lock()
	from := b.stores[base]
	if from == "" {
		if from = filepath.Join(b.TempDir(), "ours"); base == "ours" {
			ours(b, from)
		} else {
			from = filepath.Join(golden.Extract(b, base), "store")
		}
		if b.stores == nil {
			b.stores = map[string]string{}
		}
		b.stores[base] = from
	}
	b.mu.Unlock()
	s := &site{TB: t, dir: filepath.Join(t.TempDir(), "store")}
	copyStore(t, from, s.dir)
	f, err := Look(os.DirFS(s.dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.segment = f.SegmentSize()
	r, err := f.ReadLog(0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return s
		}
		if err != nil {
			t.Fatal(err)
		}
		m := rec.Message
		s.records = append(s.records, lying{QueueName{m.Topic, m.QueueID}, m.PhyOffset, m.QueueOffset, len(rec.Bytes),
			bytes.Index(rec.Bytes, m.Body), m.SysFlag.Transaction().HasUnit()})
	}
}

func copyStore(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// ours makes a store of this engine: small segments, three topics, keys, closed cleanly.
func ours(t testing.TB, dir string) {
	t.Helper()
	fill(t, dir, 300, 1_700_000_000_000)
}

// fill appends n messages, one a millisecond from ms on, to the log in dir, which may be missing, and lets recover make or complete the rest.
func fill(t testing.TB, dir string, n int, ms int64) {
	t.Helper()
	const segment = 16 << 10
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "commitlog"), 0o755))
	f, err := Look(os.DirFS(dir), nil)
	must(err)
	r, err := f.ReadLog(0)
	must(err)
	next, end := map[QueueName]int64{}, int64(0)
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		must(err)
		next[QueueName{rec.Meta.Topic, rec.Meta.QueueID}] = rec.Meta.QueueOffset + 1
		end = rec.Meta.PhyOffset + int64(rec.Meta.Size)
	}
	must(r.Close())
	write := func(at int64, b []byte) {
		t.Helper()
		p := filepath.Join(dir, "commitlog", segmentName(at-at%segment))
		out, err := os.OpenFile(p, os.O_CREATE|os.O_WRONLY, 0o644)
		must(err)
		defer out.Close()
		must(out.Truncate(segment))
		_, err = out.WriteAt(b, at%segment)
		must(err)
	}
	for i := range n {
		q := QueueName{fmt.Sprintf("Topic%c", 'A'+i%3), int32(i % 4 / 2)}
		m := record.Message{Topic: q.Topic, QueueID: q.QueueID, QueueOffset: next[q], PhyOffset: end, StoreTimestamp: ms + int64(i), Body: []byte(strings.Repeat("body ", 5+i%9)),
			Properties: record.NewProperties(record.PropertyTags, fmt.Sprintf("Tag%d", i%5), record.PropertyKeys, fmt.Sprintf("key%d other%d", i, i%7), record.PropertyUniqKey, fmt.Sprintf("uniq%d", i))}
		b, err := record.AppendRecord(nil, &m, record.Limits{})
		must(err)
		if left := segment - end%segment; int64(len(b)+record.BlankHeaderSize) > left {
			blank := make([]byte, record.BlankHeaderSize)
			record.PutBlank(blank, int(left))
			write(end, blank)
			end += left
			record.Patch(b, m.QueueOffset, end, m.StoreTimestamp)
		}
		write(end, b)
		end += int64(len(b))
		next[q]++
	}
	_, err = Recover(t.Context(), Options{Root: dir, QueueFileSize: 400})
	must(err)
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// path is a file of the store in the operating system.
func (s *site) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// edit rewrites a file.
func (s *site) edit(name string, f func(b []byte) []byte) {
	s.Helper()
	b, err := os.ReadFile(s.path(name))
	s.must(err)
	s.must(os.WriteFile(s.path(name), f(b), 0o644))
}

// poke changes the bytes of a file from at on.
func (s *site) poke(name string, at int64, f func(b []byte)) {
	s.Helper()
	s.edit(name, func(b []byte) []byte { f(b[at:]); return b })
}

// logName is the segment of a place.
func (s *site) logName(phyOffset int64) string {
	return "commitlog/" + segmentName(phyOffset-phyOffset%s.segment)
}

// inRecord changes bytes of a record.
func (s *site) inRecord(r lying, f func(b []byte)) {
	s.Helper()
	s.poke(s.logName(r.phyOffset), r.phyOffset%s.segment, func(b []byte) { f(b[:r.size]) })
}

// middle is a record in the middle of a segment in the middle of the log, with others of its queue around it.
func (s *site) middle() lying {
	for _, r := range s.records[len(s.records)/2:] {
		if in := r.phyOffset % s.segment; in > s.segment/4 && in < s.segment/2 && r.unit && r.queueOffset > 2 && s.after(r).unit {
			return r
		}
	}
	s.Fatal("no record in the middle")
	return lying{}
}

func (s *site) last() lying { return s.records[len(s.records)-1] }

// next is the record behind r in the log.
func (s *site) next(r lying) lying {
	return s.records[slices.IndexFunc(s.records, func(o lying) bool { return o.phyOffset == r.phyOffset })+1]
}

// after is the next record of r's queue.
func (s *site) after(r lying) lying {
	for _, o := range s.records {
		if o.phyOffset > r.phyOffset && o.QueueName == r.QueueName && o.unit {
			return o
		}
	}
	return lying{}
}

// lastOf is the last record of a queue.
func (s *site) lastOf(q QueueName) lying {
	for _, o := range slices.Backward(s.records) {
		if o.QueueName == q && o.unit {
			return o
		}
	}
	return lying{}
}

// other is a record of another topic than r's.
func (s *site) other(r lying) lying {
	for _, o := range s.records {
		if o.Topic != r.Topic && o.unit {
			return o
		}
	}
	return lying{}
}

// logAt, unitAt are briefs.
func (s *site) logAt(k Kind, r lying) string {
	return fmt.Sprintf("%s %s phy %d", k, s.logName(r.phyOffset), r.phyOffset)
}

func (s *site) recordAt(k Kind, r lying) string {
	return s.logAt(k, r) + fmt.Sprintf(" %s/%d@%d", r.Topic, r.QueueID, r.queueOffset)
}

// unitFile is the file and place of a unit.
func (s *site) unitFile(r lying) (name string, at int64) {
	dir := fmt.Sprintf("consumequeue/%s/%d", r.Topic, r.QueueID)
	list, err := os.ReadDir(s.path(dir))
	s.must(err)
	for _, d := range list {
		start, _ := segmentStart(d.Name())
		info, err := d.Info()
		s.must(err)
		if off := r.queueOffset * consumequeue.UnitSize; off >= start && off < start+info.Size() {
			return dir + "/" + d.Name(), off - start
		}
	}
	s.Fatalf("no unit %v", r)
	return "", 0
}

func (s *site) unitAt(k Kind, r lying, points int64) string {
	name, _ := s.unitFile(r)
	return fmt.Sprintf("%s %s phy %d %s/%d@%d", k, name, points, r.Topic, r.QueueID, r.queueOffset)
}

// inUnit changes a record's unit.
func (s *site) inUnit(r lying, f func(u *consumequeue.Unit)) {
	s.Helper()
	name, at := s.unitFile(r)
	s.poke(name, at, func(b []byte) {
		u, _ := consumequeue.ParseUnit(b)
		f(&u)
		consumequeue.PutUnit(b, u)
	})
}

func queueBrief(k Kind, q QueueName, first int64) string {
	return fmt.Sprintf("%s consumequeue/%s/%d phy %d %s/%d", k, q.Topic, q.QueueID, first, q.Topic, q.QueueID)
}

// firstOf is the first record of a queue.
func (s *site) firstOf(q QueueName) lying {
	for _, o := range s.records {
		if o.QueueName == q && o.unit {
			return o
		}
	}
	return lying{}
}

func u32(b []byte) uint32                   { return binary.BigEndian.Uint32(b) }
func put32(b []byte, v uint32)              { binary.BigEndian.PutUint32(b, v) }
func u64(b []byte) uint64                   { return binary.BigEndian.Uint64(b) }
func put64(b []byte, v uint64)              { binary.BigEndian.PutUint64(b, v) }
func flip(at int, mask byte) func(b []byte) { return func(b []byte) { b[at] ^= mask } }

// consequences of a record that is no more: its unit, and its index entries.
var gone = []Kind{DanglingUnit, IndexDangling, WrongQueueOffset}

// damages are what Check is held to find, and the other verbs to mend.
var damages = []damage{
	// The log.
	{"a flipped bit of a body", "basic", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, flip(r.body, 0x40))
		return []string{s.recordAt(BadCRC, r)}
	}, nil, MendSalvage},
	{"a flipped checksum", "ours", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, flip(9, 0x01))
		return []string{s.recordAt(BadCRC, r)}
	}, nil, MendSalvage},
	{"a flipped magic code", "basic", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, flip(5, 0x01))
		return []string{s.logAt(BadMagic, r)}
	}, gone, MendSalvage},
	{"a flipped version of the magic code", "ours", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, flip(7, 0x0C)) // v1 to v2
		return []string{s.logAt(BadSize, r)}
	}, gone, MendSalvage},
	{"a record's size made huge", "basic", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, flip(0, 0x40))
		return []string{s.logAt(BadSize, r)}
	}, gone, MendSalvage},
	{"a record's size made negative", "ours", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, flip(0, 0x80))
		return []string{s.logAt(BadSize, r)}
	}, gone, MendSalvage},
	{"a record's size off by one", "basic", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, func(b []byte) { put32(b, u32(b)+1) })
		return []string{s.logAt(BadSize, r)}
	}, gone, MendSalvage},
	{"a flipped stored physical offset", "basic", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, flip(35, 0x01))
		return []string{s.logAt(WrongPhyOffset, r)}
	}, gone, MendSalvage},
	{"a flipped queue offset, upwards", "basic", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, flip(25, 0x01))
		r.queueOffset ^= 1 << 16
		return []string{s.recordAt(WrongQueueOffset, r)}
	}, nil, MendSalvage},
	{"a flipped queue offset, downwards", "ours", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, func(b []byte) { put64(b[20:], u64(b[20:])-2) })
		r.queueOffset -= 2
		return []string{s.recordAt(WrongQueueOffset, r)}
	}, nil, MendSalvage},
	{"a flipped queue id", "ours", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, flip(15, 0x40))
		q := QueueName{r.Topic, r.QueueID ^ 0x40}
		return []string{queueBrief(MissingQueue, q, r.phyOffset), s.unitAt(WrongUnit, r, r.phyOffset)}
	}, []Kind{WrongQueueOffset}, MendSalvage},
	{"a flipped topic", "basic", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, func(b []byte) {
			at := bytes.Index(b, []byte(r.Topic))
			b[at] ^= 0x02
		})
		q := QueueName{string(r.Topic[0]^0x02) + r.Topic[1:], r.QueueID}
		return []string{queueBrief(MissingQueue, q, r.phyOffset), s.unitAt(WrongUnit, r, r.phyOffset)}
	}, []Kind{WrongQueueOffset, IndexMissing, IndexDangling}, MendSalvage},
	{"flipped tags of a record", "ours", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, func(b []byte) {
			at := bytes.Index(b, []byte("TAGS\x01"))
			b[at+5] ^= 0x01
		})
		return []string{s.unitAt(WrongTagsCode, r, r.phyOffset)}
	}, nil, MendRebuild},
	{"a flipped key of a record", "ours", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, func(b []byte) {
			at := bytes.Index(b, []byte("UNIQ_KEY\x01"))
			b[at+9] ^= 0x01
		})
		return []string{fmt.Sprintf("index-missing index_pebble phy %d %s/%d@%d", r.phyOffset, r.Topic, r.QueueID, r.queueOffset),
			fmt.Sprintf("index-dangling index_pebble phy %d %s/%d@%d", r.phyOffset, r.Topic, r.QueueID, r.queueOffset)}
	}, nil, MendRebuild},
	{"a flipped body length", "basic", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, flip(87, 0x01))
		return []string{s.logAt(BadSize, r)}
	}, gone, MendSalvage},
	{"a flipped topic length", "ours", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, func(b []byte) { b[bytes.Index(b, []byte(r.Topic))-1] ^= 0x01 })
		return []string{s.logAt(BadSize, r)}
	}, gone, MendSalvage},
	{"a system flag that makes hosts longer", "basic", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, flip(39, 0x10))
		return []string{s.logAt(BadSize, r)}
	}, gone, MendSalvage},
	{"a message that becomes a prepared one", "ours", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, flip(39, 0x04))
		return []string{s.unitAt(WrongUnit, r, r.phyOffset)}
	}, []Kind{WrongQueueOffset}, MendSalvage},
	{"a zeroed record", "basic", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, func(b []byte) { clear(b) })
		return []string{s.logAt(BadMagic, r)}
	}, gone, MendSalvage},
	{"the first record zeroed", "ours", func(s *site) []string {
		r := s.records[0]
		s.inRecord(r, func(b []byte) { clear(b) })
		return []string{s.logAt(BadMagic, r)}
	}, gone, MendSalvage},
	{"a record in the last segment zeroed", "ours", func(s *site) []string {
		r := s.records[len(s.records)-6]
		s.inRecord(r, func(b []byte) { clear(b) })
		return []string{s.logAt(BadMagic, r)}
	}, gone, MendSalvage},
	{"a zeroed header", "ours", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, func(b []byte) { clear(b[:88]) })
		return []string{s.logAt(BadMagic, r)}
	}, gone, MendSalvage},
	{"the last record torn", "basic", func(s *site) []string {
		r := s.last()
		s.inRecord(r, func(b []byte) { clear(b[r.body+1:]) })
		return []string{s.logAt(TornTail, r)}
	}, []Kind{DanglingUnit, IndexDangling, CheckpointAhead}, MendRecover},
	{"the last record's body flipped", "ours", func(s *site) []string {
		r := s.last()
		s.inRecord(r, flip(r.body, 0x04))
		return []string{s.recordAt(TornTail, r)}
	}, []Kind{IndexDangling, CheckpointAhead}, MendRecover},
	{"the last record's header gone", "basic", func(s *site) []string {
		r := s.last()
		s.inRecord(r, func(b []byte) { clear(b[:60]) })
		return []string{s.logAt(TornTail, r)}
	}, []Kind{DanglingUnit, IndexDangling, CheckpointAhead}, MendRecover},
	{"the last three records garbage", "ours", func(s *site) []string {
		r := s.records[len(s.records)-3]
		s.poke(s.logName(r.phyOffset), r.phyOffset%s.segment, func(b []byte) {
			for i := range b[:s.last().end()-r.phyOffset] {
				b[i] = byte(i*7 + 1)
			}
		})
		return []string{s.logAt(TornTail, r)}
	}, []Kind{DanglingUnit, IndexDangling, CheckpointAhead}, MendRecover},
	{"a record over the one behind it", "ours", func(s *site) []string {
		r := s.middle()
		for s.next(r).size < r.size {
			r = s.next(r)
		}
		var from []byte
		s.inRecord(r, func(b []byte) { from = bytes.Clone(b) })
		s.inRecord(s.next(r), func(b []byte) { copy(b, from) })
		return []string{s.logAt(WrongPhyOffset, s.next(r))}
	}, gone, MendSalvage},
	{"two pages exchanged", "basic", func(s *site) []string {
		r := s.middle()
		name, at := s.logName(r.phyOffset), r.phyOffset%s.segment/4096*4096
		s.edit(name, func(b []byte) []byte {
			p := bytes.Clone(b[at:][:4096])
			copy(b[at:], b[at+4096:][:4096])
			copy(b[at+4096:], p)
			return b
		})
		return []string{"bad-*"}
	}, append([]Kind{BadCRC, BadMagic, BadSize, WrongPhyOffset}, gone...), MendSalvage},
	{"a page punched out of the log", "ours", func(s *site) []string {
		r := s.middle()
		s.poke(s.logName(r.phyOffset), r.phyOffset%s.segment/4096*4096, func(b []byte) { clear(b[:4096]) })
		return []string{"bad-*"}
	}, append([]Kind{BadCRC, BadMagic, BadSize}, gone...), MendSalvage},
	{"a segment deleted", "basic", func(s *site) []string {
		name := s.logName(s.middle().phyOffset)
		s.must(os.Remove(s.path(name)))
		return []string{fmt.Sprintf("missing-segment %s phy %d", name, s.middle().phyOffset/s.segment*s.segment)}
	}, gone, MendSalvage},
	{"the last segment deleted", "ours", func(s *site) []string {
		name := s.logName(s.last().phyOffset)
		s.must(os.Remove(s.path(name)))
		return []string{fmt.Sprintf("missing-segment %s phy %d", name, s.last().phyOffset/s.segment*s.segment), "checkpoint-ahead checkpoint"}
	}, []Kind{DanglingUnit, IndexDangling, CheckpointAhead}, MendRecover},
	{"all segments deleted", "basic", func(s *site) []string {
		s.must(os.RemoveAll(s.path("commitlog")))
		s.must(os.Mkdir(s.path("commitlog"), 0o755))
		return []string{"missing-segment commitlog phy 0", "checkpoint-ahead checkpoint"}
	}, []Kind{DanglingUnit, IndexDangling, CheckpointAhead}, MendByHand},
	{"a segment shortened", "basic", func(s *site) []string {
		r := s.middle()
		s.must(os.Truncate(s.path(s.logName(r.phyOffset)), r.phyOffset%s.segment+30))
		return []string{fmt.Sprintf("wrong-length %s phy %d", s.logName(r.phyOffset), r.phyOffset/s.segment*s.segment)}
	}, append([]Kind{BadSize}, gone...), MendSalvage},
	{"a segment emptied", "ours", func(s *site) []string {
		r := s.middle()
		s.must(os.Truncate(s.path(s.logName(r.phyOffset)), 0))
		return []string{fmt.Sprintf("wrong-length %s phy %d", s.logName(r.phyOffset), r.phyOffset/s.segment*s.segment)}
	}, append([]Kind{BadSize, MissingSegment}, gone...), MendSalvage},
	{"a segment lengthened", "basic", func(s *site) []string {
		r := s.middle()
		s.must(os.Truncate(s.path(s.logName(r.phyOffset)), s.segment+4096))
		return []string{fmt.Sprintf("wrong-length %s phy %d", s.logName(r.phyOffset), r.phyOffset/s.segment*s.segment)}
	}, nil, MendSalvage},
	{"the last segment shortened", "ours", func(s *site) []string {
		r := s.last()
		s.must(os.Truncate(s.path(s.logName(r.phyOffset)), r.end()%s.segment))
		return []string{fmt.Sprintf("wrong-length %s phy %d", s.logName(r.phyOffset), r.phyOffset/s.segment*s.segment)}
	}, nil, MendSalvage},
	{"a segment renamed to another offset", "basic", func(s *site) []string {
		from := s.logName(s.middle().phyOffset)
		start := s.middle().phyOffset / s.segment * s.segment
		s.must(os.Rename(s.path(from), s.path("commitlog/"+segmentName(start+1))))
		return []string{fmt.Sprintf("stray-file commitlog/%s phy %d", segmentName(start+1), start+1), fmt.Sprintf("missing-segment %s phy %d", from, start)}
	}, gone, MendSalvage},
	{"a segment renamed", "ours", func(s *site) []string {
		from := s.logName(s.middle().phyOffset)
		s.must(os.Rename(s.path(from), s.path(from+".old")))
		return []string{"stray-file " + from + ".old", fmt.Sprintf("missing-segment %s phy %d", from, s.middle().phyOffset/s.segment*s.segment)}
	}, gone, MendSalvage},
	{"a segment copied beside itself", "basic", func(s *site) []string {
		from := s.logName(s.middle().phyOffset)
		b, err := os.ReadFile(s.path(from))
		s.must(err)
		s.must(os.WriteFile(s.path(from+".bak"), b, 0o644))
		return []string{"stray-file " + from + ".bak"}
	}, nil, MendRecover},
	{"a segment copied behind the last one", "ours", func(s *site) []string {
		b, err := os.ReadFile(s.path(s.logName(s.middle().phyOffset)))
		s.must(err)
		start := s.last().phyOffset/s.segment*s.segment + s.segment
		s.must(os.WriteFile(s.path("commitlog/"+segmentName(start)), b, 0o644))
		return []string{fmt.Sprintf("wrong-phy-offset commitlog/%s phy %d", segmentName(start), start)}
	}, nil, MendRecover},
	{"two segments exchanged", "basic", func(s *site) []string {
		a, b := s.path(s.logName(s.segment)), s.path(s.logName(2*s.segment))
		s.must(os.Rename(a, a+"x"))
		s.must(os.Rename(b, a))
		s.must(os.Rename(a+"x", b))
		return []string{fmt.Sprintf("wrong-phy-offset %s phy %d", s.logName(s.segment), s.segment), fmt.Sprintf("wrong-phy-offset %s phy %d", s.logName(2*s.segment), 2*s.segment)}
	}, gone, MendSalvage},
	{"a directory named as a segment", "ours", func(s *site) []string {
		start := s.last().phyOffset/s.segment*s.segment + s.segment
		s.must(os.Mkdir(s.path("commitlog/"+segmentName(start)), 0o755))
		return []string{"stray-file commitlog/" + segmentName(start)}
	}, nil, MendByHand},
	{"a file among the segments", "basic", func(s *site) []string {
		s.must(os.WriteFile(s.path("commitlog/core.4711"), []byte("x"), 0o644))
		return []string{"stray-file commitlog/core.4711"}
	}, nil, MendRecover},
	{"a blank's magic code flipped", "basic", func(s *site) []string {
		end := s.endOfSegment(s.middle())
		s.poke(s.logName(end), end%s.segment, flip(4, 0x10))
		return []string{fmt.Sprintf("bad-magic %s phy %d", s.logName(end), end)}
	}, nil, MendSalvage},
	{"a blank's size flipped", "ours", func(s *site) []string {
		end := s.endOfSegment(s.middle())
		s.poke(s.logName(end), end%s.segment, flip(2, 0x10))
		return []string{fmt.Sprintf("bad-size %s phy %d", s.logName(end), end)}
	}, nil, MendSalvage},
	{"a blank zeroed", "basic", func(s *site) []string {
		end := s.endOfSegment(s.middle())
		s.poke(s.logName(end), end%s.segment, func(b []byte) { clear(b[:8]) })
		return []string{fmt.Sprintf("bad-magic %s phy %d", s.logName(end), end)}
	}, nil, MendSalvage},
	{"a record that becomes a blank", "ours", func(s *site) []string {
		r := s.middle()
		s.inRecord(r, func(b []byte) { put32(b[4:], record.MagicBlank) })
		return []string{s.logAt(BadSize, r)}
	}, gone, MendSalvage},
	{"garbage behind the log's end", "basic", func(s *site) []string {
		end := s.last().end()
		s.poke(s.logName(end), end%s.segment, func(b []byte) { copy(b, "garbage as a lost write leaves it") })
		return []string{fmt.Sprintf("torn-tail %s phy %d", s.logName(end), end)}
	}, nil, MendRecover},

	// Units.
	{"a unit moved by a byte", "basic", func(s *site) []string {
		r := s.middle()
		s.inUnit(r, func(u *consumequeue.Unit) { u.PhyOffset++ })
		return []string{s.unitAt(WrongUnit, r, r.phyOffset+1)}
	}, nil, MendRebuild},
	{"a unit that points behind the log", "ours", func(s *site) []string {
		r := s.middle()
		s.inUnit(r, func(u *consumequeue.Unit) { u.PhyOffset |= 1 << 40 })
		return []string{s.unitAt(DanglingUnit, r, r.phyOffset|1<<40)}
	}, nil, MendRebuild},
	{"a unit that points at nothing", "basic", func(s *site) []string {
		r := s.middle()
		s.inUnit(r, func(u *consumequeue.Unit) { u.PhyOffset = s.last().end() + 1000 })
		return []string{s.unitAt(DanglingUnit, r, s.last().end()+1000)}
	}, nil, MendRebuild},
	{"a unit of another size", "ours", func(s *site) []string {
		r := s.middle()
		s.inUnit(r, func(u *consumequeue.Unit) { u.Size ^= 4 })
		return []string{s.unitAt(WrongUnit, r, r.phyOffset)}
	}, nil, MendRebuild},
	{"a negative unit", "basic", func(s *site) []string {
		r := s.middle()
		s.inUnit(r, func(u *consumequeue.Unit) { u.PhyOffset |= math.MinInt64 })
		return []string{s.unitAt(MissingUnit, r, r.phyOffset)}
	}, nil, MendRecover},
	{"a flipped tags code", "basic", func(s *site) []string {
		r := s.middle()
		s.inUnit(r, func(u *consumequeue.Unit) { u.TagsCode ^= 1 << 5 })
		return []string{s.unitAt(WrongTagsCode, r, r.phyOffset)}
	}, nil, MendRebuild},
	{"a delayed message due at another time", "delay", func(s *site) []string {
		for _, r := range s.records {
			if r.Topic == record.TopicSchedule {
				s.inUnit(r, func(u *consumequeue.Unit) { u.TagsCode ^= 1 << 20 })
				return []string{s.unitAt(WrongTagsCode, r, r.phyOffset)}
			}
		}
		return nil
	}, nil, MendRebuild},
	{"a tags code that becomes an extension address", "ours", func(s *site) []string {
		r := s.middle()
		s.inUnit(r, func(u *consumequeue.Unit) { u.TagsCode = math.MinInt64 + 77 })
		return []string{s.unitAt(BadExtAddress, r, r.phyOffset)}
	}, nil, MendRebuild},
	{"a zeroed unit", "ours", func(s *site) []string {
		r := s.middle()
		s.inUnit(r, func(u *consumequeue.Unit) { *u = consumequeue.Unit{} })
		return []string{s.unitAt(MissingUnit, r, r.phyOffset)}
	}, nil, MendRecover},
	{"the last unit zeroed", "basic", func(s *site) []string {
		r := s.lastOf(s.middle().QueueName)
		s.inUnit(r, func(u *consumequeue.Unit) { *u = consumequeue.Unit{} })
		return []string{s.unitAt(MissingUnit, r, r.phyOffset)}
	}, nil, MendRecover},
	{"a queue file zeroed", "basic", func(s *site) []string {
		r := s.firstOf(s.middle().QueueName)
		name, _ := s.unitFile(r)
		s.poke(name, 0, func(b []byte) { clear(b) })
		return []string{s.unitAt(MissingUnit, r, r.phyOffset)}
	}, nil, MendRecover},
	{"a unit over the one behind it", "ours", func(s *site) []string {
		r := s.middle()
		s.inUnit(s.after(r), func(u *consumequeue.Unit) { u.PhyOffset, u.Size = r.phyOffset, int32(r.size) })
		return []string{s.unitAt(WrongUnit, s.after(r), r.phyOffset)}
	}, nil, MendRebuild},
	{"two units exchanged", "basic", func(s *site) []string {
		r := s.middle()
		name, at := s.unitFile(r)
		s.poke(name, at, func(b []byte) {
			first := bytes.Clone(b[:consumequeue.UnitSize])
			copy(b, b[consumequeue.UnitSize:][:consumequeue.UnitSize])
			copy(b[consumequeue.UnitSize:], first)
		})
		return []string{s.unitAt(WrongUnit, r, s.after(r).phyOffset)}
	}, nil, MendRebuild},
	{"a unit of another topic", "ours", func(s *site) []string {
		r, o := s.middle(), lying{}
		o = s.other(r)
		s.inUnit(r, func(u *consumequeue.Unit) { u.PhyOffset, u.Size = o.phyOffset, int32(o.size) })
		return []string{s.unitAt(WrongUnit, r, o.phyOffset)}
	}, nil, MendRebuild},
	{"a unit where a filler was", "basic", func(s *site) []string {
		r := s.middle()
		s.inUnit(r, func(u *consumequeue.Unit) { *u = consumequeue.Unit{Size: math.MaxInt32} })
		return []string{s.unitAt(MissingUnit, r, r.phyOffset)}
	}, nil, MendRecover},
	{"a unit too many", "basic", func(s *site) []string {
		r := s.lastOf(s.middle().QueueName)
		r.queueOffset++
		s.inUnit(r, func(u *consumequeue.Unit) { *u = consumequeue.Unit{PhyOffset: s.last().end(), Size: 100} })
		return []string{s.unitAt(DanglingUnit, r, s.last().end())}
	}, nil, MendRecover},
	{"garbage behind a queue's end", "ours", func(s *site) []string {
		r := s.lastOf(s.middle().QueueName)
		r.queueOffset++
		s.inUnit(r, func(u *consumequeue.Unit) { *u = consumequeue.Unit{PhyOffset: -5, Size: 3, TagsCode: 9} })
		name, _ := s.unitFile(r)
		return []string{fmt.Sprintf("dangling-unit %s %s/%d@%d", name, r.Topic, r.QueueID, r.queueOffset)}
	}, nil, MendRecover},
	{"a queue file shortened", "basic", func(s *site) []string {
		name, at := s.unitFile(s.middle())
		s.must(os.Truncate(s.path(name), at))
		return []string{fmt.Sprintf("wrong-length %s %s/%d", name, s.middle().Topic, s.middle().QueueID)}
	}, []Kind{MissingUnit}, MendRecover},
	{"a queue file shortened within a unit", "ours", func(s *site) []string {
		name, at := s.unitFile(s.middle())
		s.must(os.Truncate(s.path(name), at+7))
		return []string{fmt.Sprintf("wrong-length %s %s/%d", name, s.middle().Topic, s.middle().QueueID)}
	}, []Kind{MissingUnit}, MendRecover},
	{"a queue file lengthened", "basic", func(s *site) []string {
		name, _ := s.unitFile(s.middle())
		s.must(os.Truncate(s.path(name), 2020))
		return []string{fmt.Sprintf("wrong-length %s %s/%d", name, s.middle().Topic, s.middle().QueueID)}
	}, nil, MendRecover},
	{"a queue file emptied", "ours", func(s *site) []string {
		name, _ := s.unitFile(s.middle())
		s.must(os.Truncate(s.path(name), 0))
		return []string{fmt.Sprintf("wrong-length %s %s/%d", name, s.middle().Topic, s.middle().QueueID)}
	}, []Kind{MissingUnit}, MendRecover},
	{"a queue's only file deleted", "basic", func(s *site) []string {
		name, _ := s.unitFile(s.middle())
		s.must(os.Remove(s.path(name)))
		return []string{queueBrief(MissingQueue, s.middle().QueueName, s.firstOf(s.middle().QueueName).phyOffset)}
	}, nil, MendRecover},
	{"a queue's first file deleted", "ours", func(s *site) []string {
		r := s.firstOf(s.middle().QueueName)
		name, _ := s.unitFile(r)
		s.must(os.Remove(s.path(name)))
		return []string{fmt.Sprintf("missing-unit %s phy %d %s/%d@%d", name, r.phyOffset, r.Topic, r.QueueID, r.queueOffset)}
	}, nil, MendRecover},
	{"a queue file in the middle deleted", "ours", func(s *site) []string {
		name := fmt.Sprintf("consumequeue/%s/%d/%s", s.middle().Topic, s.middle().QueueID, segmentName(400))
		s.must(os.Remove(s.path(name)))
		return []string{fmt.Sprintf("missing-segment %s %s/%d@20", name, s.middle().Topic, s.middle().QueueID)}
	}, []Kind{MissingUnit}, MendRecover},
	{"a queue deleted", "basic", func(s *site) []string {
		q := s.middle().QueueName
		s.must(os.RemoveAll(s.path(fmt.Sprintf("consumequeue/%s/%d", q.Topic, q.QueueID))))
		return []string{queueBrief(MissingQueue, q, s.firstOf(q).phyOffset)}
	}, nil, MendRecover},
	{"a light queue deleted", "lmq", func(s *site) []string {
		list, err := filepath.Glob(s.path("consumequeue/%LMQ%*"))
		s.must(err)
		s.must(os.RemoveAll(list[0]))
		return []string{"missing-queue consumequeue/" + filepath.Base(list[0]) + "/0*"}
	}, nil, MendRecover},
	{"all queues deleted", "ours", func(s *site) []string {
		s.must(os.RemoveAll(s.path("consumequeue")))
		var out []string
		for _, topic := range []string{"TopicA", "TopicB", "TopicC"} {
			for id := range 2 {
				q := QueueName{topic, int32(id)}
				out = append(out, queueBrief(MissingQueue, q, s.firstOf(q).phyOffset))
			}
		}
		return out
	}, nil, MendRecover},
	{"two queues exchanged", "basic", func(s *site) []string {
		a, b := s.path("consumequeue/TopicA/0"), s.path("consumequeue/TopicA/1")
		s.must(os.Rename(a, a+"x"))
		s.must(os.Rename(b, a))
		s.must(os.Rename(a+"x", b))
		q0, q1 := s.firstOf(QueueName{"TopicA", 0}), s.firstOf(QueueName{"TopicA", 1})
		return []string{s.unitAt(WrongUnit, q0, q1.phyOffset), s.unitAt(WrongUnit, q1, q0.phyOffset)}
	}, []Kind{WrongUnit, MissingUnit, DanglingUnit}, MendRebuild},
	{"a queue renamed", "ours", func(s *site) []string {
		q := s.middle().QueueName
		dir := fmt.Sprintf("consumequeue/%s/", q.Topic)
		s.must(os.Rename(s.path(dir+strconv.Itoa(int(q.QueueID))), s.path(dir+"7")))
		return []string{queueBrief(MissingQueue, q, s.firstOf(q).phyOffset),
			fmt.Sprintf("wrong-unit consumequeue/%s/7/%s phy %d %s/7@0", q.Topic, segmentName(0), s.firstOf(q).phyOffset, q.Topic)}
	}, nil, MendRebuild},
	{"a queue file renamed", "basic", func(s *site) []string {
		name, _ := s.unitFile(s.middle())
		s.must(os.Rename(s.path(name), s.path(name+".bak")))
		return []string{fmt.Sprintf("stray-file %s.bak %s/%d", name, s.middle().Topic, s.middle().QueueID), queueBrief(MissingQueue, s.middle().QueueName, s.firstOf(s.middle().QueueName).phyOffset)}
	}, nil, MendRecover},
	{"a queue file under another offset", "basic", func(s *site) []string {
		name, _ := s.unitFile(s.middle())
		s.must(os.Rename(s.path(name), s.path(filepath.Dir(name)+"/"+segmentName(20))))
		return []string{fmt.Sprintf("stray-file %s/%s %s/%d", filepath.Dir(name), segmentName(20), s.middle().Topic, s.middle().QueueID)}
	}, []Kind{MissingQueue}, MendRecover},
	{"a file among the topics", "ours", func(s *site) []string {
		s.must(os.WriteFile(s.path("consumequeue/x"), nil, 0o644))
		return []string{"stray-file consumequeue/x"}
	}, nil, MendRecover},
	{"a directory among the queues", "basic", func(s *site) []string {
		s.must(os.Mkdir(s.path("consumequeue/TopicA/01"), 0o755))
		return []string{"stray-file consumequeue/TopicA/01*"}
	}, nil, MendRecover},

	// Extension units.
	{"a flipped tags code of an extension unit", "consumequeueext", func(s *site) []string {
		r := s.extended()
		name, at := s.extPlace(r)
		s.poke(name, at, flip(9, 0x01))
		return []string{s.unitAt(WrongTagsCode, r, r.phyOffset)}
	}, nil, MendRebuild},
	{"a flipped store time of an extension unit", "consumequeueext", func(s *site) []string {
		r := s.extended()
		name, at := s.extPlace(r)
		s.poke(name, at, flip(17, 0x01))
		return []string{s.unitAt(BadExtAddress, r, r.phyOffset)}
	}, nil, MendRebuild},
	{"a flipped size of an extension unit", "consumequeueext", func(s *site) []string {
		r := s.extended()
		name, at := s.extPlace(r)
		s.poke(name, at, flip(1, 0x01))
		return []string{s.unitAt(BadExtAddress, r, r.phyOffset)}
	}, nil, MendRebuild},
	{"an extension address that leads nowhere", "consumequeueext", func(s *site) []string {
		r := s.extended()
		s.inUnit(r, func(u *consumequeue.Unit) { u.TagsCode += 1 << 40 })
		return []string{s.unitAt(BadExtAddress, r, r.phyOffset)}
	}, nil, MendRebuild},
	{"extension files deleted", "consumequeueext", func(s *site) []string {
		s.must(os.RemoveAll(s.path("consumequeue_ext")))
		return []string{"bad-ext-address*"}
	}, nil, MendRebuild},
	{"an extension file shortened", "consumequeueext", func(s *site) []string {
		r := s.extended()
		name, at := s.extPlace(r)
		s.must(os.Truncate(s.path(name), at+3))
		return []string{"bad-ext-address*"}
	}, []Kind{WrongLength, BadExtAddress}, MendRebuild},

	// Checkpoint, abort file, summary.
	{"the checkpoint deleted", "basic", func(s *site) []string {
		s.must(os.Remove(s.path("checkpoint")))
		return []string{"bad-checkpoint checkpoint"}
	}, nil, MendRecover},
	{"the checkpoint shortened", "ours", func(s *site) []string {
		s.must(os.Truncate(s.path("checkpoint"), 100))
		return []string{"bad-checkpoint checkpoint"}
	}, nil, MendRecover},
	{"the checkpoint lengthened", "basic", func(s *site) []string {
		s.must(os.Truncate(s.path("checkpoint"), 8192))
		return []string{"bad-checkpoint checkpoint"}
	}, nil, MendRecover},
	{"garbage in the checkpoint", "ours", func(s *site) []string {
		s.poke("checkpoint", 0, func(b []byte) { copy(b, "\xFFgarbage \xFFgarbage") })
		return []string{"bad-checkpoint checkpoint"}
	}, nil, MendRecover},
	{"a checkpoint ahead of the log", "basic", func(s *site) []string {
		s.poke("checkpoint", 0, func(b []byte) { put64(b, u64(b)+1e9) })
		return []string{"checkpoint-ahead checkpoint"}
	}, nil, MendRecover},
	{"a checkpoint ahead of the queues", "ours", func(s *site) []string {
		s.poke("checkpoint", 8, func(b []byte) { put64(b, u64(b)+1e9) })
		return []string{"checkpoint-ahead checkpoint"}
	}, nil, MendRecover},
	{"a checkpoint ahead of the index", "basic", func(s *site) []string {
		s.poke("checkpoint", 16, func(b []byte) { put64(b, u64(b)+1e9) })
		return []string{"checkpoint-ahead checkpoint"}
	}, nil, MendRecover},
	{"an old checkpoint", "ours", func(s *site) []string {
		s.poke("checkpoint", 0, func(b []byte) { put64(b, u64(b)-1e6); put64(b[8:], u64(b[8:])-1e6) })
		return []string{"bad-checkpoint checkpoint"}
	}, nil, MendRecover},
	{"a directory named checkpoint", "basic", func(s *site) []string {
		s.must(os.Remove(s.path("checkpoint")))
		s.must(os.Mkdir(s.path("checkpoint"), 0o755))
		return []string{"bad-checkpoint checkpoint"}
	}, nil, MendRecover},
	{"an abort file", "basic", func(s *site) []string {
		s.must(os.WriteFile(s.path("abort"), nil, 0o644))
		return []string{"unclean-exit abort"}
	}, nil, MendRecover},
	{"a flipped bit of the summary", "ours", func(s *site) []string {
		s.poke("mqstore.summary", 40, flip(0, 0x08))
		return []string{"bad-checkpoint mqstore.summary"}
	}, nil, MendRecover},
	{"the summary shortened", "ours", func(s *site) []string {
		s.must(os.Truncate(s.path("mqstore.summary"), 33))
		return []string{"bad-checkpoint mqstore.summary"}
	}, nil, MendRecover},

	// Our index.
	{"our index deleted", "ours", func(s *site) []string {
		s.must(os.RemoveAll(s.path("index_pebble")))
		return []string{fmt.Sprintf("index-missing index_pebble phy %d", s.records[0].phyOffset)}
	}, nil, MendRebuild},
	{"a flipped bit of our index", "ours", func(s *site) []string {
		name := s.one("index_pebble/*.sst")
		s.poke(name, 100, flip(0, 0x10))
		return []string{"index-missing index_pebble"}
	}, nil, MendRebuild},
	{"a table of our index deleted", "ours", func(s *site) []string {
		s.must(os.Remove(s.path(s.one("index_pebble/*.sst"))))
		return []string{"index-missing index_pebble"}
	}, nil, MendRebuild},
	{"a table of our index shortened", "ours", func(s *site) []string {
		s.must(os.Truncate(s.path(s.one("index_pebble/*.sst")), 500))
		return []string{"index-missing index_pebble"}
	}, nil, MendRebuild},
	{"our index's manifest emptied", "ours", func(s *site) []string {
		s.must(os.Truncate(s.path(s.one("index_pebble/MANIFEST-*")), 0))
		return []string{"index-missing index_pebble"}
	}, nil, MendRebuild},
	{"a file instead of our index", "ours", func(s *site) []string {
		s.must(os.RemoveAll(s.path("index_pebble")))
		s.must(os.WriteFile(s.path("index_pebble"), []byte("x"), 0o644))
		return []string{"index-missing index_pebble"}
	}, nil, MendRebuild},
	{"an old copy of our index", "ours", func(s *site) []string {
		old := filepath.Join(s.TempDir(), "old")
		copyStore(s, s.path("index_pebble"), old)
		end := s.last().end()
		fill(s, s.dir, 20, 1_700_000_001_000)
		s.must(os.RemoveAll(s.path("index_pebble")))
		copyStore(s, old, s.path("index_pebble"))
		return []string{fmt.Sprintf("index-behind index_pebble phy %d", end)}
	}, nil, MendRecover},
	{"the index of another store", "ours", func(s *site) []string {
		other := filepath.Join(s.TempDir(), "other")
		fill(s, other, 300, 1_600_000_000_000)
		s.must(os.RemoveAll(s.path("index_pebble")))
		copyStore(s, filepath.Join(other, "index_pebble"), s.path("index_pebble"))
		return []string{fmt.Sprintf("index-dangling index_pebble phy %d *", s.records[0].phyOffset)}
	}, []Kind{IndexDangling, IndexMissing}, MendRebuild},

	// RocketMQ's index.
	{"a flipped hash in an index file", "basic", func(s *site) []string {
		name := s.indexFile(1)
		s.poke(name, s.entry(7), flip(3, 0x01))
		return []string{"index-missing " + name + " phy *", "index-dangling " + name + " phy *"}
	}, []Kind{IndexMissing}, MendRebuild},
	{"a flipped place in an index file", "basic", func(s *site) []string {
		name := s.indexFile(1)
		s.poke(name, s.entry(7), flip(11, 0x01))
		return []string{"index-missing " + name + " phy *", "index-dangling " + name + " phy *"}
	}, []Kind{IndexMissing}, MendRebuild},
	{"a zeroed entry of an index file", "basic", func(s *site) []string {
		name := s.indexFile(1)
		s.poke(name, s.entry(7), func(b []byte) { clear(b[:20]) })
		return []string{"index-missing " + name + " phy *"}
	}, []Kind{IndexMissing, IndexDangling}, MendRebuild},
	{"a flipped time in an index file", "basic", func(s *site) []string {
		name := s.indexFile(1)
		s.poke(name, s.entry(7), flip(14, 0x01))
		return []string{"index-dangling " + name + " phy *"}
	}, nil, MendRebuild},
	{"a flipped chain in an index file", "basic", func(s *site) []string {
		name := s.indexFile(1)
		s.poke(name, s.entry(190), flip(19, 0x01))
		return []string{"index-missing " + name + " phy *"}
	}, nil, MendRebuild},
	{"a flipped slot of an index file", "basic", func(s *site) []string {
		name := s.indexFile(1)
		s.poke(name, 40+4*9, flip(3, 0x01))
		return []string{"index-missing " + name + " phy *"}
	}, nil, MendRebuild},
	{"the slots of an index file zeroed", "basic", func(s *site) []string {
		name := s.indexFile(1)
		s.poke(name, 40, func(b []byte) { clear(b[:4*50]) })
		return []string{"index-missing " + name + " phy *"}
	}, nil, MendRebuild},
	{"an index file's header counts too few", "basic", func(s *site) []string {
		name := s.indexFile(1)
		s.poke(name, 36, func(b []byte) { put32(b, u32(b)-10) })
		return []string{"index-missing " + name + " phy *"}
	}, nil, MendRebuild},
	{"a flipped begin time of an index file", "basic", func(s *site) []string {
		name := s.indexFile(1)
		s.poke(name, 0, flip(5, 0x01))
		return []string{"index-dangling " + name + " phy *"}
	}, []Kind{IndexDangling, IndexMissing}, MendRebuild},
	{"the newest index file deleted", "basic", func(s *site) []string {
		s.must(os.Remove(s.path(s.indexFile(3))))
		return []string{"index-behind index phy *"}
	}, []Kind{IndexMissing}, MendRecover},
	{"the oldest index file deleted", "basic", func(s *site) []string {
		s.must(os.Remove(s.path(s.indexFile(0))))
		return []string{"index-missing " + s.indexFile(0) + " phy *"}
	}, nil, MendRebuild},
	{"an index file in the middle deleted", "basic", func(s *site) []string {
		s.must(os.Remove(s.path(s.indexFile(1))))
		return []string{"index-missing index/*"}
	}, nil, MendRebuild},
	{"an index file shortened", "basic", func(s *site) []string {
		name := s.indexFile(1)
		s.must(os.Truncate(s.path(name), 3000))
		return []string{"wrong-length " + name}
	}, []Kind{IndexMissing}, MendRebuild},
	{"an index file emptied", "basic", func(s *site) []string {
		name := s.indexFile(1)
		s.must(os.Truncate(s.path(name), 0))
		return []string{"wrong-length " + name}
	}, []Kind{IndexMissing}, MendRebuild},
	{"an index file renamed", "basic", func(s *site) []string {
		name := s.indexFile(1)
		s.must(os.Rename(s.path(name), s.path(name+".bak")))
		return []string{"stray-file " + name + ".bak"}
	}, []Kind{IndexMissing}, MendRecover},
	{"RocketMQ's index deleted", "ipv6", func(s *site) []string {
		s.must(os.RemoveAll(s.path("index")))
		return []string{fmt.Sprintf("index-missing index_pebble phy %d", s.records[0].phyOffset)}
	}, nil, MendRebuild},
}

// endOfSegment is where the blank of a record's segment begins.
func (s *site) endOfSegment(r lying) int64 {
	end := int64(0)
	for _, o := range s.records {
		if o.phyOffset/s.segment == r.phyOffset/s.segment {
			end = o.end()
		}
	}
	return end
}

// one is the first name that matches.
func (s *site) one(pattern string) string {
	s.Helper()
	list, err := filepath.Glob(s.path(pattern))
	s.must(err)
	if len(list) == 0 {
		s.Fatalf("no %s", pattern)
	}
	rel, err := filepath.Rel(s.dir, list[0])
	s.must(err)
	return filepath.ToSlash(rel)
}

// indexFile is the i-th of RocketMQ's index files, which have 50 slots and 200 entries.
func (s *site) indexFile(i int) string {
	s.Helper()
	list, err := filepath.Glob(s.path("index/*"))
	s.must(err)
	return "index/" + filepath.Base(list[i])
}

func (s *site) entry(n int64) int64 { return 40 + 4*50 + 20*n }

// extended is a record whose unit leads to an extension unit, in the middle of its queue.
func (s *site) extended() lying {
	s.Helper()
	for _, r := range s.records[len(s.records)/2:] {
		name, at := s.unitFile(r)
		b, err := os.ReadFile(s.path(name))
		s.must(err)
		if u, err := consumequeue.ParseUnit(b[at:]); err == nil && u.IsExtAddress() {
			return r
		}
	}
	s.Fatal("no extension unit")
	return lying{}
}

// extPlace is the file and place of a record's extension unit.
func (s *site) extPlace(r lying) (name string, at int64) {
	s.Helper()
	var address int64
	s.inUnit(r, func(u *consumequeue.Unit) { address = u.TagsCode })
	off, _ := consumequeue.ExtOffset(address)
	segs, err := segments(os.DirFS(s.dir), fmt.Sprintf("consumequeue_ext/%s/%d", r.Topic, r.QueueID))
	s.must(err)
	for _, g := range segs {
		if off >= g.Start && off < g.End() {
			return g.Path, off - g.Start
		}
	}
	s.Fatalf("no extension file for %v", r)
	return "", 0
}

// matches reports whether a brief is the one that was wanted.
func matches(want, got string) bool {
	for {
		before, after, star := strings.Cut(want, "*")
		if !star {
			return got == before
		}
		if after == "" {
			return strings.HasPrefix(got, before)
		}
		if !strings.HasPrefix(got, before) {
			return false
		}
		got = got[len(before):]
		i := strings.Index(got, strings.SplitN(after, "*", 2)[0])
		if i < 0 {
			return false
		}
		got, want = got[i:], after
	}
}

func TestCheckFindsEachDamage(t *testing.T) {
	if len(damages) < 60 {
		t.Fatalf("%d damages, the law is about at least 60", len(damages))
	}
	b := &bases{TB: t}
	for _, d := range damages {
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := b.site(t, d.base)
			if found, _ := checkDir(t, s.dir, CheckOptions{IndexSlack: 1}); len(found) > 0 {
				t.Fatalf("before it was damaged: %s", show(found[0]))
			}
			want := d.do(s)
			found, _ := checkDir(t, s.dir, CheckOptions{IndexSlack: 1})
			for _, w := range want {
				if !slices.ContainsFunc(found, func(f Finding) bool { return matches(w, brief(f)) }) {
					t.Errorf("not found: %s", w)
				}
			}
			named := false
			for _, f := range found {
				told := slices.ContainsFunc(want, func(w string) bool { return matches(w, brief(f)) })
				if !told && !slices.Contains(d.also, f.Kind) {
					t.Errorf("found as well: %s", show(f))
				}
				named = named || f.Mend == d.mend
			}
			if !named {
				t.Errorf("no finding says that %q mends it", d.mend)
			}
			if t.Failed() {
				for _, f := range found {
					t.Log(show(f))
				}
			}
		})
	}
}

// Who does what the findings say gets a store without findings: salvage if one names it, else recover, then rebuild.
func TestEachDamageIsMendedByTheVerbsThatItsFindingsName(t *testing.T) {
	b := &bases{TB: t}
	every := 4 / effort.N(1, 4) // of the table, so as not to be long
	for i, d := range damages {
		if d.mend == MendByHand || i%every != 0 {
			continue
		}
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := b.site(t, d.base)
			d.do(s)
			dir, did := s.dir, "nothing"
			named := func(verb string) bool {
				found, _ := checkDir(t, dir, CheckOptions{IndexSlack: 1})
				return slices.ContainsFunc(found, func(f Finding) bool { return f.Mend == verb })
			}
			switch {
			case named(MendSalvage):
				dir, did = filepath.Join(t.TempDir(), "new"), "salvage"
				if _, err := Salvage(t.Context(), SalvageOptions{Source: s.dir, Dest: dir}); err != nil {
					t.Fatal(err)
				}
			default:
				if named(MendRecover) {
					did = "recover"
					if _, err := Recover(t.Context(), Options{Root: dir}); err != nil {
						t.Fatal(err)
					}
				}
				if named(MendRebuild) {
					did += ", rebuild"
					if _, err := Rebuild(t.Context(), RebuildOptions{Options: Options{Root: dir}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			found, _ := checkDir(t, dir, CheckOptions{IndexSlack: 1})
			for _, f := range found {
				t.Errorf("after %s: %s", did, show(f))
			}
		})
	}
}
