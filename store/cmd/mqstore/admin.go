package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mqstore/mqstore/ha/metasync"
	"github.com/mqstore/mqstore/store"
)

// handler answers the operator. It changes nothing.
func (n *node) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if why := n.unhealthy(); why != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, why)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		s := n.store.Load()
		if s == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, `{"state":"opening"}`)
			return
		}
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		_ = e.Encode(n.stats(s)) // who asked is gone
	})
	return mux
}

// unhealthy is why the node cannot do its part; "" if it can. A slave whose master is away is well: it waits.
func (n *node) unhealthy() string {
	s := n.store.Load()
	if s == nil {
		return "the store is being opened"
	}
	st := s.Stats()
	f := st.HA.Following
	switch {
	case st.DispatchHeldUp != "":
		return "dispatch stands still: " + st.DispatchHeldUp
	case f != nil && f.Diverged != "":
		return f.Diverged
	case f == nil && !st.Writable:
		return st.NotWritableReason
	}
	return ""
}

// statsJSON is the answer to /stats. Offsets are physical, sizes and lags in bytes, times in milliseconds.
type statsJSON struct {
	State       string `json:"state"` // serving
	Healthy     bool   `json:"healthy"`
	Unhealthy   string `json:"unhealthy,omitempty"` // why
	BrokerName  string `json:"brokerName"`
	ClusterName string `json:"clusterName"`
	BrokerID    int64  `json:"brokerId"`
	Role        string `json:"role"`
	Dir         string `json:"dir"`
	Uptime      int64  `json:"uptime"`

	MinPhyOffset        int64 `json:"minPhyOffset"`
	MaxPhyOffset        int64 `json:"maxPhyOffset"`
	FlushedPhyOffset    int64 `json:"flushedPhyOffset"`
	ConfirmPhyOffset    int64 `json:"confirmPhyOffset"`
	DispatchedPhyOffset int64 `json:"dispatchedPhyOffset"`
	DispatchBehindBytes int64 `json:"dispatchBehindBytes"`
	Queues              int   `json:"queues"`
	Topics              int   `json:"topics"`
	Segments            int   `json:"segments"`
	DiskFree            int64 `json:"diskFree"`
	DiskTotal           int64 `json:"diskTotal"`

	Writable          bool     `json:"writable"`
	NotWritableReason string   `json:"notWritableReason,omitempty"`
	Warnings          []string `json:"warnings,omitempty"`

	Index       indexJSON                `json:"index"`
	HA          haJSON                   `json:"ha"`
	Metadata    map[string]tableJSON     `json:"metadata,omitempty"` // of a slave, by file
	NameServers map[string]nameServerFor `json:"nameServers,omitempty"`
}

type haJSON struct {
	ListenAddress   string      `json:"listenAddress"`
	SlaveFallBehind int64       `json:"slaveFallBehind"` // of the slave that is furthest; all of the log without one
	MaxAck          int64       `json:"maxAck"`
	Accepted        int64       `json:"accepted"`
	Refused         int64       `json:"refused"`
	Slaves          []slaveJSON `json:"slaves"`
	Following       *followJSON `json:"following,omitempty"` // of a slave
}

type slaveJSON struct {
	Peer     string `json:"peer"`
	Since    int64  `json:"since"`
	Reported bool   `json:"reported"` // if not, the offsets mean nothing yet
	Ack      int64  `json:"ack"`
	Sent     int64  `json:"sent"`
	Lag      int64  `json:"lag"`
	Bytes    int64  `json:"bytes"`
}

type followJSON struct {
	State       string `json:"state"`
	Master      string `json:"master"`
	LastError   string `json:"lastError,omitempty"`
	Diverged    string `json:"diverged,omitempty"`
	LastRead    int64  `json:"lastRead"` // 0 = never
	Reported    int64  `json:"reported"`
	Bytes       int64  `json:"bytes"`
	Connects    int64  `json:"connects"`
	Failures    int64  `json:"failures"`
	Divergences int64  `json:"divergences"`
}

type tableJSON struct {
	Synced    int64  `json:"synced"`
	Changed   int64  `json:"changed"`
	Failed    int64  `json:"failed"`
	LastSync  int64  `json:"lastSync"`
	LastError string `json:"lastError,omitempty"`
}

type nameServerFor struct {
	Answered   int64  `json:"answered"`
	Failed     int64  `json:"failed"`
	LastAnswer int64  `json:"lastAnswer"`
	LastError  string `json:"lastError,omitempty"`
}

func (n *node) stats(s *store.DefaultMessageStore) statsJSON {
	st, b := s.Stats(), n.p.broker
	j := statsJSON{
		State: "serving", Unhealthy: n.unhealthy(), BrokerName: b.Name, ClusterName: b.ClusterName, BrokerID: b.ID, Role: st.HA.Role.String(), Dir: b.StorePathRootDir, Uptime: time.Since(n.began).Milliseconds(),
		MinPhyOffset: st.MinPhyOffset, MaxPhyOffset: st.MaxPhyOffset, FlushedPhyOffset: st.FlushedPhyOffset, ConfirmPhyOffset: st.ConfirmPhyOffset,
		DispatchedPhyOffset: st.DispatchedPhyOffset, DispatchBehindBytes: st.DispatchBehindBytes, Queues: st.Queues, Topics: st.Topics, Segments: st.Segments, DiskFree: st.DiskFree, DiskTotal: st.DiskTotal,
		Writable: st.Writable, NotWritableReason: st.NotWritableReason, Warnings: st.Warnings, Index: indexJSON{st.Index.Kind, st.Index.ProgressPhyOffset, st.Index.Entries},
		HA: haJSON{ListenAddress: st.HA.ListenAddress, SlaveFallBehind: st.HA.SlaveFallBehind, MaxAck: st.HA.MaxAck, Accepted: st.HA.Accepted, Refused: st.HA.Refused, Slaves: []slaveJSON{}},
	}
	j.Healthy = j.Unhealthy == ""
	for _, c := range st.HA.Slaves {
		j.HA.Slaves = append(j.HA.Slaves, slaveJSON{c.Peer, ms(c.Since), c.Reported, c.Ack, c.Sent, c.Lag, c.Bytes})
	}
	if f := st.HA.Following; f != nil {
		j.HA.Following = &followJSON{f.State, f.Master, f.LastError, f.Diverged, ms(f.LastRead), f.Reported, f.Bytes, f.Connects, f.Failures, f.Divergences}
	}
	if n.syncer != nil {
		j.Metadata = map[string]tableJSON{}
		all := n.syncer.Stats()
		for _, k := range []metasync.Kind{metasync.KindTopics, metasync.KindConsumerOffsets, metasync.KindDelayOffsets, metasync.KindSubscriptionGroups} {
			t := all.Table(k)
			j.Metadata[k.File()] = tableJSON{t.Synced, t.Changed, t.Failed, ms(t.LastSync), text(t.LastErr)}
		}
	}
	if n.registrar != nil {
		j.NameServers = map[string]nameServerFor{}
		for addr, t := range n.registrar.Stats().Servers {
			j.NameServers[addr] = nameServerFor{t.Answered, t.Failed, ms(t.LastAnswer), text(t.LastErr)}
		}
	}
	return j
}

func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
