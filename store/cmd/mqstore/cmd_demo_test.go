package main

import "testing"

// A machine that stood still, or a disk that was slow, must not have the demo kill a process that has acknowledged nothing yet.
func TestDemoKillsWhenSomethingIsAcknowledged(t *testing.T) {
	const late, acked, fall = "late", "acked", "fall"
	for _, c := range []struct {
		says  []string
		kills int // after how many of them; 0: never
	}{
		{[]string{late}, 0},
		{[]string{acked, acked}, 0},
		{[]string{late, acked, acked, fall}, 2},
		{[]string{acked, late, acked, fall}, 2},
		{[]string{acked, fall, late}, 2},
		{[]string{fall, late, acked}, 1},
	} {
		killed := 0
		a := axe{kill: func() { killed++ }}
		for i, what := range c.says {
			map[string]func(){late: a.late, acked: a.acked, fall: a.fall}[what]()
			if due := c.kills > 0 && i+1 >= c.kills; a.fallen() != due || killed > 1 || (killed == 1) != due {
				t.Errorf("%v: after %d of them it is killed %d times; want %v", c.says, i+1, killed, due)
			}
		}
	}
}
