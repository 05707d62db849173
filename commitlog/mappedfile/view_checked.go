//go:build invariants || race

package mappedfile

import "sync/atomic"

const (
	viewCopyMax = 64 << 10
	viewJunk    = 0xDB
)

// viewCheck catches a second Release, and who reads small views after Release reads junk (under race: is reported).
type viewCheck struct{ state *viewState }

type viewState struct {
	released atomic.Bool
	copied   []byte
}

func newView(f *file, b []byte, off int64) View {
	st := &viewState{}
	if len(b) <= viewCopyMax {
		st.copied = append(make([]byte, 0, len(b)), b...)
		b = st.copied
	}
	return View{Bytes: b, Off: off, f: f, viewCheck: viewCheck{st}}
}

func (c viewCheck) checkReleased() {
	if c.state.released.Swap(true) {
		panic("mappedfile: view released twice")
	}
	for i := range c.state.copied {
		c.state.copied[i] = viewJunk
	}
}

// holdCheck does for a Hold what viewCheck does for a View.
type holdCheck struct{ state *holdState }

type holdState struct {
	released atomic.Bool
	handed   []viewCheck
}

func newHoldCheck() holdCheck { return holdCheck{&holdState{}} }

func (c holdCheck) checkBytes(b []byte) []byte {
	v := newView(nil, b, 0)
	c.state.handed = append(c.state.handed, v.viewCheck)
	return v.Bytes
}

func (c holdCheck) checkReleased() {
	if c.state.released.Swap(true) {
		panic("mappedfile: hold released twice")
	}
	for _, v := range c.state.handed {
		v.checkReleased()
	}
}
