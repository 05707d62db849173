package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// Options say what Generate makes. The zero value is everything, on a store whose setup the seed decides.
type Options struct {
	Ops     int          // default 300
	Setup   *Setup       // nil: the seed decides
	Weights map[Kind]int // how often each kind comes; nil: DefaultWeights
	Only    []Kind       // the other kinds do not come; nil: all. See Abilities
	Topics  int          // default 3
	Queues  int          // default 2
	Keys    int          // keys that messages share; default 6
	Usual   bool         // no strange values: no message that a store must refuse, no question beyond what exists
}

// DefaultWeights is how often each kind of operation comes, unless Options say otherwise.
func DefaultWeights() map[Kind]int {
	return map[Kind]int{
		Put: 300, Async: 40, Await: 10, Batch: 60, Append: 15, Get: 180, Bounds: 30, Unit: 50, ByTime: 60, Lookup: 50, LookupID: 20, Query: 40, Scan: 8, Log: 6, Whole: 3, Flush: 10, Expire: 12, Reopen: 4, Crash: 6, SetClock: 100,
	}
}

type generator struct {
	rng   *rand.Rand
	o     Options
	setup Setup
	puts  int64
	kinds []Kind
	sums  []int
}

// Generate makes the workload of a seed.
func Generate(seed uint64, o Options) Workload {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&o.Ops, 300)
	def(&o.Topics, 3)
	def(&o.Queues, 2)
	def(&o.Keys, 6)
	g := &generator{rng: rand.New(rand.NewPCG(seed, 0x6f7073)), o: o}
	g.setup = g.randomSetup()
	if o.Setup != nil {
		g.setup = *o.Setup
	}
	weights := o.Weights
	if weights == nil {
		weights = DefaultWeights()
	}
	sum := 0
	for _, k := range Kinds() {
		if w := weights[k]; w > 0 && (o.Only == nil || slices.Contains(o.Only, k)) {
			sum += w
			g.kinds, g.sums = append(g.kinds, k), append(g.sums, sum)
		}
	}
	w := Workload{Setup: g.setup}
	for sum > 0 && len(w.Ops) < o.Ops {
		n := g.rng.IntN(sum)
		i, _ := slices.BinarySearch(g.sums, n+1)
		w.Ops = append(w.Ops, g.op(g.kinds[i]))
	}
	return w
}

// randomSetup is small everywhere, so that segments, queue files and limits are met often.
func (g *generator) randomSetup() Setup {
	rng := g.rng
	s := Setup{SegmentSize: 4096, QueueFileSize: 200, MaxMessage: 5000, Memory: 10_000, MemoryBytes: 3000, DiskBytes: 1500}
	switch rng.IntN(10) {
	case 0:
		s.SegmentSize, s.MaxMessage = 128<<10, 70_000
	case 1, 2:
		s.SegmentSize = 1 << 10 << rng.IntN(4)
		s.MaxMessage = int(s.SegmentSize) / (1 + rng.IntN(3))
		s.QueueFileSize = int64(20 * (1 + rng.IntN(30)))
	}
	s.V2 = rng.IntN(2) == 0
	s.Role = []store.Role{store.AsyncMaster, store.AsyncMaster, store.SyncMaster}[rng.IntN(3)]
	s.Flush = store.FlushMode(rng.IntN(2))
	s.MultiDispatch = rng.IntN(5) == 0
	if s.NoIndex = rng.IntN(2) > 0; rng.IntN(4) == 0 {
		s.MemoryCount, s.DiskCount = 1+rng.IntN(12), 1+rng.IntN(6)
	}
	return s
}

func (g *generator) one(in int) bool { return g.rng.IntN(in) == 0 }

// strange is whether a value is one that nobody expects.
func (g *generator) strange(in int) bool { return !g.o.Usual && g.one(in) }

func pick[T any](g *generator, from ...T) T { return from[g.rng.IntN(len(from))] }

func (g *generator) topic() string {
	if g.strange(60) {
		return pick(g, "", "nobody", ".", "a/b", strings.Repeat("t", 126+g.rng.IntN(3)), strings.Repeat("t", 254+g.rng.IntN(3)), strings.Repeat("é", 62+g.rng.IntN(3)), "%RETRY%g", "T\x00", record.TopicSchedule)
	}
	return string(rune('A' + g.rng.IntN(g.o.Topics)))
}

func (g *generator) queue() int32 {
	if g.strange(80) {
		return pick(g, -1, math.MaxInt32, int32(g.o.Queues), math.MinInt32)
	}
	return g.rng.Int32N(int32(g.o.Queues))
}

func (g *generator) host() record.Host {
	s := pick(g, "", "192.0.2.1:10911", "[2001:db8::1]:10911", "[2001:db8::ffff]:0")
	if s == "" || g.one(2) {
		return record.Host{}
	}
	return record.HostFrom(netip.MustParseAddrPort(s))
}

// bodyLen is mostly small; now and then around a limit.
func (g *generator) bodyLen(topic string) int {
	segment := int(min(max(g.setup.SegmentSize, 1<<10), 1<<20))
	if g.strange(25) {
		fits := segment - 8 - 91 - len(topic)
		return max(0, pick(g, fits, g.setup.MaxMessage, fits/2)+g.rng.IntN(7)-3)
	}
	switch g.rng.IntN(12) {
	case 0:
		return 0
	case 1:
		return g.rng.IntN(max(1, min(segment/2, g.maxBody())))
	}
	return g.rng.IntN(max(1, min(segment/8, 700, g.maxBody())))
}

func (g *generator) maxBody() int {
	if g.setup.MaxMessage > 0 {
		return g.setup.MaxMessage
	}
	return 4 << 20
}

func (g *generator) props() (ps []Property) {
	add := func(name, v string) { ps = append(ps, Property{name, v}) }
	if g.one(2) {
		add(record.PropertyTags, pick(g, "tag0", "tag1", "tag2", "Aa", "BB", "tag0||tag1"))
	}
	if g.one(3) {
		add(record.PropertyKeys, pick(g, g.key(), g.key()+" "+g.key(), g.key()+"  "+g.key()+" "))
	}
	if g.one(3) {
		add(record.PropertyUniqKey, fmt.Sprint("u", g.rng.IntN(g.o.Keys*2)))
	}
	if g.one(6) {
		add(record.PropertyWait, pick(g, "false", "true", "FALSE", "no"))
	}
	if g.one(8) {
		add("COLOUR", pick(g, "blue", "grün", ""))
	}
	if g.strange(20) {
		add(pick(g, record.PropertyDelay, record.PropertyMultiDispatch, "\x00", "", "Z", record.PropertyTags), pick(g, "0", "1", "3", "x", "%LMQ%a", "%LMQ%a,%LMQ%b", "\x00"))
	}
	return ps
}

func (g *generator) key() string { return fmt.Sprint("k", g.rng.IntN(g.o.Keys)) }

func (g *generator) message(o *Op) {
	m := &o.Message
	o.Topic, o.Queue = g.topic(), g.queue()
	m.Len, m.Seed = g.bodyLen(o.Topic), uint64(g.rng.IntN(100))
	m.Props = g.props()
	if g.one(2) {
		m.Born, m.Flag, m.Reconsume = StartTime-g.rng.Int64N(1000), pick[int32](g, 0, 1, -1, g.rng.Int32()), g.rng.Int32N(3)
	}
	m.Host, m.BornHost = g.host(), g.host()
	if g.one(12) {
		m.Tx = pick(g, record.TransactionPrepared, record.TransactionCommit, record.TransactionRollback)
		m.Prepared = g.rng.Int64N(10_000)
	}
	if g.one(15) && m.Len > 0 {
		m.Codec = pick(g, record.CompressionLZ4, record.CompressionZstd, record.CompressionZlib)
	}
	if g.strange(60) {
		m.V2 = true
	}
	if g.strange(40) {
		m.Pad = pick(g, 1, 100, 32_767-g.rng.IntN(120), 32_768)
	}
	g.puts++
}

// offset is a queue offset: mostly one that exists.
func (g *generator) offset() Ref {
	small := int64(g.rng.IntN(6))
	if g.strange(25) {
		return pick(g, Abs(-1), Abs(math.MaxInt64), Abs(math.MinInt64), Abs(1<<40), Ref{Base: Max, Plus: 2}, Ref{Base: Max, Plus: 1}, Ref{Base: Min, Plus: -1})
	}
	per := g.puts/int64(g.o.Topics*g.o.Queues) + 1
	return pick(g, Abs(g.rng.Int64N(per)), Ref{Base: Min, Plus: small}, Ref{Base: Max, Plus: -small}, Ref{Base: Max, Plus: -g.rng.Int64N(per) - 1}, Ref{Base: Back, Back: 1 + g.rng.IntN(20)}, Ref{Base: Max})
}

func (g *generator) phy() Ref {
	back := Ref{Base: Back, Back: 1 + g.rng.IntN(30)}
	if g.one(2) {
		return back
	}
	if g.strange(4) {
		return pick(g, Abs(-1), Abs(0), Abs(math.MaxInt64), Abs(math.MinInt64), Abs(g.setup.SegmentSize), Ref{Base: Max, Plus: int64(g.rng.IntN(200) - 100)}, Ref{Base: Min, Plus: int64(g.rng.IntN(9) - 4)})
	}
	if g.strange(2) {
		back.Plus = int64(g.rng.IntN(9) - 4)
	}
	return back
}

func (g *generator) time() Ref {
	if g.strange(20) {
		return pick(g, Abs(0), Abs(-1), Abs(math.MaxInt64), Abs(math.MinInt64), Ref{Base: Now, Plus: 1 << 40})
	}
	return pick(g, Ref{Base: Now, Plus: -g.rng.Int64N(300)}, Ref{Base: Back, Back: 1 + g.rng.IntN(40), Plus: int64(g.rng.IntN(3) - 1)}, Ref{Base: Back, Back: 1 + g.rng.IntN(200), Plus: int64(g.rng.IntN(21) - 10)})
}

func (g *generator) op(k Kind) Op {
	o := Op{Kind: k}
	rng := g.rng
	switch k {
	case Put, Async:
		g.message(&o)
	case Batch:
		g.message(&o)
		m := &o.Message
		m.Len, m.Seed, m.Codec = 0, 0, 0
		if !g.one(4) {
			m.Props = nil
		}
		n := 1 + rng.IntN(6)
		if g.strange(15) {
			n = pick(g, 0, 1, 40)
		}
		for range n {
			it := Message{Len: g.bodyLen(o.Topic), Seed: uint64(rng.IntN(100)), Props: g.props(), Flag: pick[int32](g, 0, 7, -1)}
			if !g.one(3) {
				it.Len = min(it.Len, 100)
			}
			if g.strange(40) {
				it.Pad = pick(g, 1, 100, 32_767-rng.IntN(60))
			}
			o.Items = append(o.Items, it)
		}
	case Append:
		g.message(&o)
		switch rng.IntN(8) {
		case 0:
			o.Cut = 1 + rng.IntN(200)
		case 1, 2:
			o.Rest = true
		case 3:
			o.Blank = true
		case 4:
			if !g.o.Usual {
				o.Skew = pick[int64](g, -1, 1, 8, -int64(rng.IntN(5000)))
			}
		case 5:
			if !g.o.Usual {
				o.Topic = record.TopicSchedule
				o.Message.Props = append(o.Message.Props, Property{record.PropertyDelay, pick(g, "1", "18", "19", "x")})
			}
		case 6:
			o.Message.Props = append(o.Message.Props, Property{record.PropertyMultiDispatch, pick(g, "%LMQ%a", "%LMQ%a,%LMQ%b", "L", "%LMQ%c")})
		}
	case Get:
		o.Topic, o.Queue, o.At = g.topic(), g.queue(), g.offset()
		o.Max = pick(g, 0, 1, 2, 5, 32, 40)
		if g.strange(10) {
			o.Max = pick(g, -1, -5, 1000, 1<<20)
		}
		if g.one(2) {
			o.Filter = pick(g, "*", "tag0", "tag1 || tag2", "none", "Aa", "tag0||tag1", "Aa||BB||tag2")
		}
		if g.strange(30) {
			o.Filter = pick(g, "||", " ", "| |", "tag0 ||", "TAG0", strings.Repeat("x||", 20))
		}
	case Bounds:
		o.Topic, o.Queue = g.topic(), g.queue()
	case Unit, Scan:
		o.Topic, o.Queue, o.At = g.topic(), g.queue(), g.offset()
	case ByTime:
		o.Topic, o.Queue, o.Time, o.Rule = g.topic(), g.queue(), g.time(), store.TimeRule(rng.IntN(3))
	case Lookup:
		o.Phy = g.phy()
	case LookupID:
		o.Phy = g.phy()
		if g.strange(10) {
			o.Message.Host = g.host()
		}
	case Query:
		o.Topic, o.Key, o.Max = g.topic(), g.key(), pick(g, 0, 0, 1, 3, 64, 80)
		if g.one(3) {
			o.Key = fmt.Sprint("u", rng.IntN(g.o.Keys*2))
		}
		if g.strange(20) {
			o.Key, o.Max = pick(g, "", "k", "none", "k0 k1", "K0"), -1
		}
		if g.one(2) {
			o.Begin = g.time()
		}
		if g.one(2) {
			o.End = g.time()
		}
	case Log:
		// From a record's start, or from before the log.
		o.Phy = pick(g, Ref{Base: Min}, Abs(0))
		if g.one(2) {
			o.End = Ref{Base: Back, Back: 1 + rng.IntN(30), Plus: int64(rng.IntN(3) - 1)}
		}
	case Expire:
		o.Segments = 1 + rng.IntN(3)
	case Crash:
		o.How, o.Seed = Ending(rng.IntN(2)), uint64(rng.IntN(1000))
	case SetClock:
		o.Add = pick[int64](g, 1, 1, 3, 7, 30, rng.Int64N(100))
		if g.strange(12) {
			o.Add = pick[int64](g, -1, -50, -3_600_000, 86_400_000)
		}
	}
	return o
}
