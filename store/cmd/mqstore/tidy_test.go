package main

import (
	"testing"
	"time"

	"github.com/mqstore/mqstore/store"
)

func TestExpiredIsWhatTheConfigurationSays(t *testing.T) {
	b := store.Broker{FileReserved: 48 * time.Hour, DeleteWhen: []int{4, 16}, MaxDiskRatio: 75}
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 59, 0, 0, time.Local) }
	byAge := store.ExpireOptions{OlderThan: 48 * time.Hour}
	for _, c := range []struct {
		name        string
		hour        int
		free, total int64
		forcibly    bool
		want        store.ExpireOptions
	}{
		{"not its hour", 5, 50, 100, false, store.ExpireOptions{}},
		{"its hour", 16, 50, 100, false, byAge},
		{"disk as full as allowed", 5, 25, 100, false, store.ExpireOptions{}},
		{"disk fuller", 5, 24, 100, false, byAge},
		{"disk unknown", 5, -1, -1, false, store.ExpireOptions{}},
		{"forcibly", 5, 50, 100, true, store.ExpireOptions{DiskRatio: 0.85}},
		{"its hour, forcibly", 4, 1, 100, true, store.ExpireOptions{OlderThan: 48 * time.Hour, DiskRatio: 0.85}},
	} {
		b.CleanForcibly = c.forcibly
		if got := expiry(b, at(c.hour), c.free, c.total); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
