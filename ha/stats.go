package ha

import (
	"cmp"
	"slices"
	"time"
)

// MasterStats is a snapshot. Counters count from NewMaster.
type MasterStats struct {
	Connections     []ConnectionStats // oldest first
	Accepted        int64             // connections, those included that were sent away
	Refused         int64             // peers that were sent away: too many, impossible positions, failed handshakes
	MaxAck          int64             // see Master.MaxAck
	SlaveFallBehind int64             // see Master.SlaveFallBehind
}

// ConnectionStats is one slave of a master.
type ConnectionStats struct {
	Peer     string
	Extended bool
	Since    time.Time
	Reported bool  // it told its position; else Ack and Sent mean nothing
	Ack      int64 // physical offset it reported last
	Sent     int64 // physical offset up to which the log was sent
	Lag      int64 // bytes of the log that it has not acknowledged
	Bytes    int64 // of the log, sent
}

// Stats is a snapshot of connections and counters.
func (m *Master) Stats() MasterStats {
	s := MasterStats{Accepted: m.accepted.Load(), Refused: m.refused.Load(), MaxAck: m.MaxAck(), SlaveFallBehind: m.SlaveFallBehind()}
	end := m.src.MaxPhyOffset()
	m.mu.Lock()
	for c := range m.mu.conns {
		s.Connections = append(s.Connections, c.stats(end))
	}
	m.mu.Unlock()
	slices.SortFunc(s.Connections, func(a, b ConnectionStats) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Peer, b.Peer))
	})
	return s
}

// State is what a Slave is doing.
type State int32

// The states of a slave.
const (
	Stopped    State = iota // Run has not begun, or has returned
	Idle                    // no master's address
	Connecting              // dialing, greeting, or flushing before the first report
	Following               // connected: frames are appended as they come
	BackingOff              // waits for the next attempt; SlaveStats.LastError says why
)

// String is the state in a word.
func (s State) String() string {
	switch s {
	case Stopped:
		return "stopped"
	case Idle:
		return "idle"
	case Connecting:
		return "connecting"
	case Following:
		return "following"
	case BackingOff:
		return "backing off"
	}
	return "unknown"
}

// SlaveStats is a snapshot. Counters count from NewSlave.
type SlaveStats struct {
	State         State
	Master        string   // address; "" = none
	MasterStoreID [16]byte // what the master said in the last extended handshake
	LastError     error    // why the last attempt or connection ended; nil again once a frame was appended or the connection outlived a heartbeat
	Since         time.Time
	LastRead      time.Time // when bytes of the master last arrived
	Bytes         int64     // appended
	Frames        int64     // received, heartbeats included
	Connects      int64     // connections that came about
	Failures      int64     // attempts and connections that ended with an error
	Mismatches    int64     // of Failures, those by a frame that did not continue the log
	Reported      int64     // physical offset last reported
}
