package index

import (
	"errors"
	"testing"
)

// What Pebble's iterator panics with is damage, once.
func TestAPanicOfPebbleIsDamage(t *testing.T) {
	for name, call := range map[string]func(i *iterator) bool{
		"first":        func(i *iterator) bool { return i.first() },
		"next":         func(i *iterator) bool { return i.next() },
		"seekGE":       func(i *iterator) bool { return i.seekGE(nil) },
		"seekPrefixGE": func(i *iterator) bool { return i.seekPrefixGE(make([]byte, keySize)) },
		"value":        func(i *iterator) bool { _, err := i.value(); return !errors.Is(err, ErrDamaged) },
	} {
		i := &iterator{} // without one of Pebble, whatever is called panics
		if call(i) || !errors.Is(i.error(), ErrDamaged) {
			t.Errorf("%s: %v", name, i.err)
		}
		if err := i.close(); err != nil {
			t.Errorf("%s: closed: %v", name, err)
		}
	}
	if err := (&iterator{}).close(); !errors.Is(err, ErrDamaged) {
		t.Errorf("close: %v", err)
	}
	if _, err := (&database{}).iterate(nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("iterate: %v", err)
	}
}
