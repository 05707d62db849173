package store

import "time"

// HAStats is a store's part in replication at one moment.
type HAStats struct {
	Role            Role
	ListenAddress   string // of the classic protocol; "" = no listener
	ExtendedAddress string // of the extended one

	Slaves          []SlaveStats // connections, oldest first
	SlaveFallBehind int64        // bytes that the connected slave that is furthest lacks; all of the log without one
	MaxAck          int64        // physical offset, the highest that any slave has acknowledged since Open
	Accepted        int64        // connections
	Refused         int64        // of these, those that were sent away, at once or for what they said

	Following *FollowStats // of a slave; nil if it is none
}

// SlaveStats is a slave's connection, as its master sees it.
type SlaveStats struct {
	Peer     string
	Extended bool
	Since    time.Time
	Reported bool  // it has said how much it holds; if not, the offsets mean nothing
	Ack      int64 // physical offset up to which it has the log
	Sent     int64 // up to which it was sent
	Lag      int64 // bytes of the log that it has not acknowledged
	Bytes    int64 // of the log, sent

	LagTime time.Duration // for how long the oldest message that it has not acknowledged has been in the log; 0 if there is none
}

// FollowStats is a slave's own view.
type FollowStats struct {
	State       string // stopped, idle, connecting, following, backing off
	Master      string // address; "" = none
	LastError   string // why the last attempt or connection ended; "" once bytes come, or the connection has lasted
	Diverged    string // why this log does not continue the master's, and what to do; "" = it does, as far as is known
	Since       time.Time
	LastRead    time.Time // when bytes of the master last came
	Reported    int64     // physical offset last acknowledged
	Bytes       int64     // appended
	Frames      int64
	Connects    int64 // connections that came about
	Failures    int64 // attempts and connections that ended with an error
	Divergences int64 // of these, those by a log that is not the master's
}

func (s *DefaultMessageStore) haStats() HAStats {
	r := &s.replication
	st := HAStats{Role: s.Role(), ListenAddress: r.addresses.classic, ExtendedAddress: r.addresses.extended, SlaveFallBehind: max(s.log.MaxPhyOffset(), 0)}
	if r.master != nil {
		m := r.master.Stats()
		st.SlaveFallBehind, st.MaxAck, st.Accepted, st.Refused = m.SlaveFallBehind, m.MaxAck, m.Accepted, m.Refused
		for _, c := range m.Connections {
			one := SlaveStats{Peer: c.Peer, Extended: c.Extended, Since: c.Since, Reported: c.Reported, Ack: c.Ack, Sent: c.Sent, Lag: c.Lag, Bytes: c.Bytes}
			if c.Reported {
				one.LagTime = s.lagTime(c.Ack)
			}
			st.Slaves = append(st.Slaves, one)
		}
	}
	if st.Role == Slave && r.slave != nil {
		f := r.slave.Stats()
		st.Following = &FollowStats{
			State: f.State.String(), Master: f.Master, Since: f.Since, LastRead: f.LastRead, Reported: f.Reported, Bytes: f.Bytes, Frames: f.Frames,
			Connects: f.Connects, Failures: f.Failures, Divergences: r.divergences.Load(),
		}
		if f.LastError != nil {
			st.Following.LastError = f.LastError.Error()
		}
		if p := r.diverged.Load(); p != nil {
			st.Following.Diverged = (*p).Error()
		}
	}
	return st
}
