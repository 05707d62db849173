package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mqstore/mqstore/ha/metasync"
	"github.com/mqstore/mqstore/store"
)

// handler answers the operator. GET changes nothing.
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
	mux.HandleFunc("POST /role", n.handleRole)
	mux.HandleFunc("POST /master", n.handleMaster)
	return http.NewCrossOriginProtection().Handler(mux) // a web page must not reach them through a browser on this machine
}

// roleTimeout bounds a change of role, which dispatches what a slave has not dispatched yet.
const roleTimeout = 5 * time.Minute

// handleRole is POST /role?role=SYNC_MASTER, or role=SLAVE&master=HOST:PORT&metadata=HOST:PORT.
func (n *node) handleRole(w http.ResponseWriter, r *http.Request) {
	q, ok := n.parameters(w, r, "role", "master", "metadata")
	if !ok {
		return
	}
	var role store.Role
	switch q.Get("role") {
	case "ASYNC_MASTER":
		role = store.AsyncMaster
	case "SYNC_MASTER":
		role = store.SyncMaster
	case "SLAVE":
		role = store.Slave
	default:
		http.Error(w, fmt.Sprintf("role=%q: must be ASYNC_MASTER, SYNC_MASTER or SLAVE", q.Get("role")), http.StatusBadRequest)
		return
	}
	if role != store.Slave && (q.Has("master") || q.Has("metadata")) {
		http.Error(w, "a master follows nobody: master and metadata go with role=SLAVE", http.StatusBadRequest)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(roleTimeout + 10*time.Second)) // if not, the answer may not arrive
	ctx, cancel := context.WithTimeout(r.Context(), roleTimeout)
	defer cancel()
	n.changed(w, n.become(ctx, role, q.Get("master"), q.Get("metadata")))
}

// handleMaster is POST /master?address=HOST:PORT&metadata=HOST:PORT: whom this slave follows from now on, or this master when it becomes one.
func (n *node) handleMaster(w http.ResponseWriter, r *http.Request) {
	q, ok := n.parameters(w, r, "address", "metadata")
	if !ok {
		return
	}
	s := n.store.Load()
	if s == nil {
		n.changed(w, errOpening)
		return
	}
	err := s.UpdateHaMasterAddress(q.Get("address"))
	if p := n.part.Load(); err == nil && p.syncer != nil && q.Has("metadata") {
		p.syncer.SetMaster(q.Get("metadata"))
	}
	n.changed(w, err)
}

// parameters refuses whoever is on another machine, since nothing is asked for, and what it does not know, since a misspelt parameter must not change a role in another way than was meant.
func (n *node) parameters(w http.ResponseWriter, r *http.Request, known ...string) (url.Values, bool) {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || !isLoopback(host) {
		http.Error(w, "changes are taken from this machine only: log in there", http.StatusForbidden)
		return nil, false
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, false
	}
	for k, v := range q {
		if !slices.Contains(known, k) || len(v) != 1 {
			http.Error(w, fmt.Sprintf("parameter %q: there are %s, each once", k, strings.Join(known, ", ")), http.StatusBadRequest)
			return nil, false
		}
	}
	return q, true
}

// changed answers with what the node is now, or why it is what it was.
func (n *node) changed(w http.ResponseWriter, err error) {
	if err != nil {
		n.p.log.Warn("a change was refused", "err", err)
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	st := n.store.Load().Stats().HA
	master := ""
	if st.Following != nil {
		master = st.Following.Master
	}
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(changeJSON{st.Role.String(), master, "until this process ends; then its file decides"}) // who asked is gone
}

// changeJSON is the answer to a change.
type changeJSON struct {
	Role   string `json:"role"`
	Master string `json:"master,omitempty"`
	Until  string `json:"until"`
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
	ExtendedAddress string      `json:"extendedAddress,omitempty"`
	SlaveFallBehind int64       `json:"slaveFallBehind"` // of the slave that is furthest; all of the log without one
	MaxAck          int64       `json:"maxAck"`
	Accepted        int64       `json:"accepted"`
	Refused         int64       `json:"refused"`
	Slaves          []slaveJSON `json:"slaves"`
	Following       *followJSON `json:"following,omitempty"` // of a slave
}

type slaveJSON struct {
	Peer     string `json:"peer"`
	Extended bool   `json:"extended"` // TLS and token
	Since    int64  `json:"since"`
	Reported bool   `json:"reported"` // if not, the offsets mean nothing yet
	Ack      int64  `json:"ack"`
	Sent     int64  `json:"sent"`
	Lag      int64  `json:"lag"`
	LagTime  int64  `json:"lagTime"` // how old the oldest message is that it lacks
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
		State: "serving", Unhealthy: n.unhealthy(), BrokerName: b.Name, ClusterName: b.ClusterName, BrokerID: n.brokerID(st.HA.Role), Role: st.HA.Role.String(), Dir: b.StorePathRootDir, Uptime: time.Since(n.began).Milliseconds(),
		MinPhyOffset: st.MinPhyOffset, MaxPhyOffset: st.MaxPhyOffset, FlushedPhyOffset: st.FlushedPhyOffset, ConfirmPhyOffset: st.ConfirmPhyOffset,
		DispatchedPhyOffset: st.DispatchedPhyOffset, DispatchBehindBytes: st.DispatchBehindBytes, Queues: st.Queues, Topics: st.Topics, Segments: st.Segments, DiskFree: st.DiskFree, DiskTotal: st.DiskTotal,
		Writable: st.Writable, NotWritableReason: st.NotWritableReason, Warnings: st.Warnings, Index: indexJSON{st.Index.Kind, st.Index.ProgressPhyOffset, st.Index.Entries},
		HA: haJSON{ListenAddress: st.HA.ListenAddress, ExtendedAddress: st.HA.ExtendedAddress, SlaveFallBehind: st.HA.SlaveFallBehind, MaxAck: st.HA.MaxAck, Accepted: st.HA.Accepted, Refused: st.HA.Refused, Slaves: []slaveJSON{}},
	}
	j.Healthy = j.Unhealthy == ""
	for _, c := range st.HA.Slaves {
		j.HA.Slaves = append(j.HA.Slaves, slaveJSON{c.Peer, c.Extended, ms(c.Since), c.Reported, c.Ack, c.Sent, c.Lag, c.LagTime.Milliseconds(), c.Bytes})
	}
	if f := st.HA.Following; f != nil {
		j.HA.Following = &followJSON{f.State, f.Master, f.LastError, f.Diverged, ms(f.LastRead), f.Reported, f.Bytes, f.Connects, f.Failures, f.Divergences}
	}
	p := n.part.Load()
	if p.syncer != nil {
		j.Metadata = map[string]tableJSON{}
		all := p.syncer.Stats()
		for _, k := range []metasync.Kind{metasync.KindTopics, metasync.KindConsumerOffsets, metasync.KindDelayOffsets, metasync.KindSubscriptionGroups} {
			t := all.Table(k)
			j.Metadata[k.File()] = tableJSON{t.Synced, t.Changed, t.Failed, ms(t.LastSync), text(t.LastErr)}
		}
	}
	if p.registrar != nil {
		j.NameServers = map[string]nameServerFor{}
		for addr, t := range p.registrar.Stats().Servers {
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
