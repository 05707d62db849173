package conformance

import (
	"slices"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(getFilterLaws...) }

// tagged puts one message for each tag, "" for none.
func tagged(t *T, topic string, tags ...string) {
	for _, tag := range tags {
		m := t.Message(topic, 0, "of "+tag)
		if tag != "" {
			m.Properties = record.NewProperties("TAGS", tag)
		}
		t.Put(m)
	}
	t.Settle(topic, 0, int64(len(tags)))
}

var getFilterLaws = []Law{
	{
		ID:     "get-040",
		Says:   "A tag filter lets through the messages of its tag, and the next offset is behind all that were looked at.",
		Why:    "a next offset behind the last match would have the others looked at again and again",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			tagged(t, topic, "a", "b", "a", "c", "a", "b")
			g := t.From(topic, 0, 10, store.TagFilter("a"))
			t.Answers("filter a", g, store.Found, 6, 3)
			t.Offsets("filter a", g, 0, 2, 4)
		},
	},
	{
		ID:     "get-041",
		Says:   "When nothing matches, a get is NO_MATCHED_MESSAGE, and goes on behind what was looked at.",
		Why:    "a consumer of a rare tag moves on through the queue by it",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			tagged(t, topic, "a", "b", "a")
			t.Answers("filter z", t.From(topic, 1, 10, store.TagFilter("z")), store.NoMatchedMessage, 3, 0)
		},
	},
	{
		ID:     "get-042",
		Says:   "A filter of several tags lets each of them through.",
		Why:    "\"TagA || TagB\" is what subscriptions are written in",
		Source: "dispatch-and-read.md 5.3 (filter interface)",
		Check: func(t *T) {
			topic := t.Topic("")
			tagged(t, topic, "a", "b", "c", "a", "d")
			g := t.From(topic, 0, 10, store.TagFilter("a || c"))
			t.Answers("filter a || c", g, store.Found, 5, 3)
			t.Offsets("filter a || c", g, 0, 2, 3)
		},
	},
	{
		ID:     "get-043",
		Says:   "The filter * lets everything through, tagged or not.",
		Why:    "it is the subscription of who wants the whole topic",
		Source: "dispatch-and-read.md 5.3 (filter interface)",
		Check: func(t *T) {
			topic := t.Topic("")
			tagged(t, topic, "a", "", "b")
			t.Answers("filter *", t.From(topic, 0, 10, store.TagFilter("*")), store.Found, 3, 3)
			t.Answers("the empty filter", t.From(topic, 0, 10, store.TagFilter("")), store.Found, 3, 3)
		},
	},
	{
		ID:     "get-044",
		Says:   "A message without tags does not match a tag.",
		Why:    "its code is 0, which is no tag's that anybody uses",
		Source: "commitlog-format.md 1.8",
		Check: func(t *T) {
			topic := t.Topic("")
			tagged(t, topic, "", "a", "")
			g := t.From(topic, 0, 10, store.TagFilter("a"))
			t.Answers("filter a", g, store.Found, 3, 1)
			t.Offsets("filter a", g, 1)
		},
	},
	{
		ID:     "get-045",
		Says:   "A filter by tags code lets tags with the same hash through: \"Aa\" also gives \"BB\".",
		Why:    "queues hold hashes; the consumer compares the tag itself once more, and a store that compared too would hide what a broker filters by other means",
		Source: "dispatch-and-read.md 5.3 (filter interface)",
		Check: func(t *T) {
			topic := t.Topic("")
			tagged(t, topic, "Aa", "x", "BB")
			g := t.From(topic, 0, 10, store.TagFilter("Aa"))
			t.Answers("filter Aa", g, store.Found, 3, 2)
			t.Offsets("filter Aa", g, 0, 2)
		},
	},
	{
		ID:     "get-046",
		Says:   "When a get is full it stops before the next message, also with a filter: the next offset is one past the last match.",
		Why:    "what was not looked at must be looked at by the next get",
		Source: "dispatch-and-read.md 5.3 (scan, 4)",
		Check: func(t *T) {
			topic := t.Topic("")
			tagged(t, topic, "a", "b", "a", "b", "b", "a")
			g := t.From(topic, 0, 2, store.TagFilter("a"))
			t.Answers("two of tag a", g, store.Found, 3, 2)
			t.Offsets("two of tag a", g, 0, 2)
			t.Answers("the third", t.From(topic, 3, 2, store.TagFilter("a")), store.Found, 6, 1)
		},
	},
	{
		ID:     "get-047",
		Says:   "A filter is asked about each message's tags code: the 32-bit hash of TAGS, 0 without.",
		Why:    "a broker's own filters are written against it",
		Source: "commitlog-format.md 1.8",
		Check: func(t *T) {
			topic := t.Topic("")
			tagged(t, topic, "a", "", "TagB")
			p := &probe{}
			t.From(topic, 0, 10, p)
			if want := []int64{record.TagsCode("a"), 0, record.TagsCode("TagB")}; !slices.Equal(p.codes, want) {
				t.Errorf("asked about the codes %v, want %v", p.codes, want)
			}
			Equal(t, "units whose code is not known", p.unknown, 0)
			Equal(t, "units with an extension", p.ext, 0)
		},
	},
	{
		ID:     "get-048",
		Says:   "A filter that refuses a message by its unit is not asked about the record.",
		Why:    "the record would be read from disk for it",
		Source: "dispatch-and-read.md 5.3 (scan, 6)",
		Check: func(t *T) {
			topic := t.Topic("")
			tagged(t, topic, "a", "b", "a")
			p := &probe{unit: func(code int64) bool { return code == record.TagsCode("b") }}
			t.Answers("a filter by code", t.From(topic, 0, 10, p), store.Found, 3, 1)
			Equal(t, "records it was asked about", len(p.records), 1)
		},
	},
	{
		ID:     "get-049",
		Says:   "A filter is asked about each record that its unit let through, with its bytes, and what it refuses is not returned.",
		Why:    "filters by properties (SQL92) look there",
		Source: "dispatch-and-read.md 5.3 (scan, 8)",
		Check: func(t *T) {
			topic := t.Topic("")
			puts := t.PutN(topic, 0, 4)
			t.Settle(topic, 0, 4)
			p := &probe{rec: func(b []byte) bool {
				m, err := record.Decode(b)
				return err == nil && string(m.Body) == "2"
			}}
			g := t.From(topic, 0, 10, p)
			t.Answers("a filter by body", g, store.Found, 4, 1)
			t.Offsets("a filter by body", g, 2)
			Equal(t, "records that could not be decoded", p.damaged, 0)
			if want := []int{puts[0].Size, puts[1].Size, puts[2].Size, puts[3].Size}; !slices.Equal(p.records, want) {
				t.Errorf("asked about records of %v bytes, want %v", p.records, want)
			}
			t.Answers("a filter that lets no record through", t.From(topic, 0, 10, &probe{rec: func([]byte) bool { return false }}), store.NoMatchedMessage, 4, 0)
		},
	},
	{
		ID:     "get-050",
		Says:   "A walk with a filter, by next offsets, meets every match once.",
		Why:    "a match lost between two gets is a message lost",
		Source: "dispatch-and-read.md 5.3",
		Config: Config{QueueFileSize: 200, SegmentSize: 8192, MaxTransferMessagesInMemory: 7},
		Check: func(t *T) {
			topic := t.Topic("")
			var want []int64
			tags := make([]string, 75)
			for i := range tags {
				tags[i] = "other"
				if i%3 == 0 || i > 60 {
					tags[i] = "mine"
					want = append(want, int64(i))
				}
			}
			tagged(t, topic, tags...)
			var seen []int64
			for at := int64(0); at < 75; {
				g := t.From(topic, at, 3, store.TagFilter("mine"))
				if g.NextBeginOffset <= at || g.Status != store.Found && g.Status != store.NoMatchedMessage {
					t.Fatalf("at %d: %v, next offset %d", at, g.Status, g.NextBeginOffset)
				}
				seen, at = append(seen, g.QueueOffsets...), g.NextBeginOffset
			}
			if !slices.Equal(seen, want) {
				t.Errorf("met %v, want %v", seen, want)
			}
		},
	},
}
