package ha

// Events reports what happens on goroutines without a caller. Nil funcs are filled. They are called without locks, on the connection's goroutine,
// possibly on several at a time: return soon, and do not call Close.
// peer is the network address of the other side, or what a listener listens to.
type Events struct {
	Connected    func(peer string)            // master: a connection was accepted; slave: the master takes us
	Disconnected func(peer string, err error) // it ended, and why
	Refused      func(peer string, err error) // master: a peer was sent away, its words do not count; slave: no connection came about (once per reason)
	Warning      func(peer string, err error) // goes on, but somebody should know: ErrOpenToWorld, ErrMidRecord, an accept that failed
}

func (e *Events) fill() {
	nop := func(string, error) {}
	if e.Connected == nil {
		e.Connected = func(string) {}
	}
	if e.Disconnected == nil {
		e.Disconnected = nop
	}
	if e.Refused == nil {
		e.Refused = nop
	}
	if e.Warning == nil {
		e.Warning = nop
	}
}
