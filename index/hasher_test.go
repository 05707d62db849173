package index_test

import (
	"slices"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index"
)

// A Hasher makes of each record what Hashes makes of it, whatever it made before.
func TestHasherMakesWhatHashesMakes(t *testing.T) {
	var h index.Hasher
	for _, flag := range []record.SysFlag{0, record.SysFlag(record.TransactionPrepared), record.SysFlag(record.TransactionRollback)} {
		for _, topic := range []string{"T", "a longer topic", "中文"} {
			for _, p := range [][]string{
				{}, {record.PropertyTags, "t"}, {record.PropertyUniqKey, "u"}, {record.PropertyKeys, "a"}, {record.PropertyKeys, " a  b a "}, {record.PropertyKeys, "  "},
				{record.PropertyUniqKey, "u", record.PropertyKeys, "u v", record.PropertyKeys, "x u v w"},
			} {
				m := record.Meta{Magic: record.MagicV1, Topic: topic, SysFlag: flag, Properties: record.NewProperties(p...)}
				k := m.Properties.Known()
				if want, got := index.Hashes(nil, &m), h.Hashes(&m, &k); !slices.Equal(want, got) {
					t.Errorf("%v %q %v: %x, want %x", flag, topic, p, got, want)
				}
			}
		}
	}
	blank := record.Meta{Magic: record.MagicBlank}
	if got := h.Hashes(&blank, &record.Known{}); len(got) > 0 {
		t.Error(got)
	}
}
