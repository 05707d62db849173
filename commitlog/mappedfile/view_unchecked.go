//go:build !invariants && !race

package mappedfile

type viewCheck struct{}

func newView(f *file, b []byte, off int64) View { return View{Bytes: b, Off: off, f: f} }
func (viewCheck) checkReleased()                {}

type holdCheck struct{}

func newHoldCheck() holdCheck                { return holdCheck{} }
func (holdCheck) checkBytes(b []byte) []byte { return b }
func (holdCheck) checkReleased()             {}
