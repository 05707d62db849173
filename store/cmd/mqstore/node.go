package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/mqstore/mqstore/ha/metasync"
	"github.com/mqstore/mqstore/ha/remoting"
	"github.com/mqstore/mqstore/store"
)

// minMasterAddress is how long a master's address must be for a slave of 4.9.8 to take it.
const minMasterAddress = 6

// nodePlan is all that a node needs to know.
type nodePlan struct {
	options  store.Options
	broker   store.Broker
	warnings []string // of what the configuration means
	log      hclog.Logger

	mainAddr  string // where a master serves its metadata; and two ports below
	adminAddr string
	master    string // of a slave: where it copies metadata from; "" = the name servers tell

	register                 bool
	brokerAddr, haServerAddr string // how others reach this node, as the name servers are told
}

// node is a store, and what a broker's process does beside it: metadata, registration, and an ear for the operator.
type node struct {
	p     nodePlan
	began time.Time
	store atomic.Pointer[store.DefaultMessageStore] // nil while it is being opened

	admin    net.Listener
	http     *http.Server
	part     atomic.Pointer[part] // nil until there is one
	changing sync.Mutex           // one change of role at a time, and none beside close
	closed   bool                 // guarded by changing

	stop    context.CancelFunc
	running sync.WaitGroup // tidy
	serving sync.WaitGroup
}

// startNode listens, opens the store, and starts everything. The admin address answers while the store is still being opened.
func startNode(p nodePlan) (_ *node, err error) {
	n := &node{p: p, began: time.Now()}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	defer func() {
		if err != nil {
			_ = n.close() // of an error there is one already
		}
	}()
	if n.admin, err = net.Listen("tcp", p.adminAddr); err != nil {
		return nil, listenFailed("health and stats", err, "give another address with --admin")
	}
	n.http = &http.Server{Handler: n.handler(), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: p.log.StandardLogger(nil)}
	n.serving.Go(func() { n.served("admin", n.http.Serve(n.admin)) })

	first, err := n.newPart(p.options.Role, p.master)
	if err != nil {
		return nil, err
	}
	n.part.Store(first)
	p.options.Logger = p.log
	s, err := store.Open(p.broker.StorePathRootDir, p.options)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) {
			return nil, listenFailed("slaves", err, "change haListenPort")
		}
		return nil, err
	}
	n.store.Store(s)
	n.running.Go(func() { n.tidy(ctx, s) })
	first.run(n)
	return n, nil
}

// registration makes the node known without topics: clients would be sent here, where nothing answers them.
func (n *node) registration(p *part, id int64) metasync.RegistrarOptions {
	b := n.p.broker
	var failed sync.Map // name server -> text last logged
	return metasync.RegistrarOptions{
		NameServers: b.NamesrvAddr, BrokerName: b.Name, BrokerAddr: n.p.brokerAddr, ClusterName: b.ClusterName, BrokerID: id, HAServerAddr: n.p.haServerAddr,
		Registered: func(r metasync.Registration) {
			failed.Delete(r.NameServer)
			if p.syncer == nil || r.MasterAddr == "" {
				return
			}
			p.syncer.SetMaster(r.MasterAddr)
			if n.p.options.HA.MasterAddress != "" || len(r.HAServerAddr) < minMasterAddress {
				return // as in 4.9.8, the configuration's master stays
			}
			if n.p.options.HA.Extended != nil {
				return // that is a master's classic listener
			}
			if err := n.store.Load().UpdateHaMasterAddress(r.HAServerAddr); err != nil {
				n.p.log.Warn("a name server names a master that cannot be", "nameServer", r.NameServer, "err", err)
			}
		},
		Failed: func(server string, err error) {
			if before, _ := failed.Swap(server, err.Error()); before != err.Error() {
				n.p.log.Warn("registration failed; it is tried again", "nameServer", server, "err", err)
			}
		},
	}
}

// copyFailed logs a table's failure when it is another than the last.
func (n *node) copyFailed() func(metasync.Kind, error) {
	var said sync.Map
	return func(k metasync.Kind, err error) {
		if before, _ := said.Swap(k, err.Error()); before != err.Error() {
			n.p.log.Warn("copying metadata failed; it is tried again", "table", k, "err", err)
		}
	}
}

// served notes why a server ended, unless it was closed.
func (n *node) served(what string, err error) {
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, remoting.ErrClosed) && !errors.Is(err, net.ErrClosed) {
		n.p.log.Error("a listener failed", "of", what, "err", err)
	}
}

// close ends everything that startNode has started, what others rely on last.
func (n *node) close() error {
	var errs []error
	n.changing.Lock()
	n.closed = true
	n.changing.Unlock()
	n.stop()
	n.running.Wait()
	if p := n.part.Load(); p != nil {
		p.end(n)
	}
	if s := n.store.Load(); s != nil {
		errs = append(errs, s.Close())
	}
	if n.http != nil {
		n.http.Close()
	}
	n.serving.Wait()
	return errors.Join(errs...)
}

// listenFailed says what to do about an address that cannot be listened on.
func listenFailed(forWhat string, err error, instead string) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen for %s: %w: stop the process that has it (ss -ltnp shows which), or %s", forWhat, err, instead)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("listen for %s: %w: it is no address of this machine; give one with --bind (0.0.0.0 is every interface)", forWhat, err)
	}
	return fmt.Errorf("listen for %s: %w", forWhat, err)
}

// onlyLoopback reports whether all name servers are on this machine.
func onlyLoopback(servers string) bool {
	for s := range strings.SplitSeq(servers, ";") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		if host, _, err := net.SplitHostPort(s); err != nil || !isLoopback(host) {
			return false
		}
	}
	return true
}
