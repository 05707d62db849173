package index

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Where a table deletes or replaces what is in another one, they are not read one by one.
func TestTablesThatHideEntriesAreNotReadOneByOne(t *testing.T) {
	at, hash := int64(0), hashOf("T", "k")
	key := appendKey(nil, 0, hash, uint32(at))
	for name, change := range map[string]func(db *pebble.DB) error{
		"nothing":  func(*pebble.DB) error { return nil },
		"deleted":  func(db *pebble.DB) error { return db.Delete(key, pebble.NoSync) },
		"range":    func(db *pebble.DB) error { return db.DeleteRange(headKey(5), headKey(6), pebble.NoSync) },
		"replaced": func(db *pebble.DB) error { return db.Set(key, appendTime(nil, 77, 0), pebble.NoSync) },
	} {
		t.Run(name, func(t *testing.T) {
			m := record.Meta{Magic: record.MagicV1, Size: 100, Topic: "T", StoreTimestamp: 5, Properties: record.NewProperties(record.PropertyKeys, "k")}
			o := Options{Dir: t.TempDir(), MaxPhyOffset: 100, NoBackground: true, Record: func(_ int64, look func(*record.Meta)) (bool, error) {
				look(&m)
				return true, nil
			}}
			x, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if err := errors.Join(x.Dispatch(&m), x.Flush(), change(x.db.DB), x.db.DB.Flush()); err != nil {
				t.Fatal(err)
			}
			r, err := OpenReader(o)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			n := 0
			err = r.EachStored(func(e []Entry) error {
				n += len(e)
				return nil
			})
			if plain := name == "nothing"; plain != (err == nil) || plain && n != 1 {
				t.Errorf("%d entries, %v", n, err)
			}
			if err := x.EachStored(func([]Entry) error { return nil }); err == nil {
				t.Error("an index that is written to was read without what it has in memory")
			}
		})
	}
}
