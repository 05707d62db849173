package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"

	"github.com/mqstore/mqstore/ha/metasync"
	"github.com/mqstore/mqstore/ha/remoting"
	"github.com/mqstore/mqstore/store"
)

// part is what a node does beside its store that depends on its role: a master serves its metadata, a slave copies it, and either is registered with its own brokerId.
type part struct {
	main, vip  net.Listener        // of a master
	metadata   *remoting.Server    // of a master
	syncer     *metasync.Syncer    // of a slave
	registrar  *metasync.Registrar // nil without name servers
	registered bool                // it was started. A node that did not start must not unregister the one that runs in its place

	stop    context.CancelFunc
	running sync.WaitGroup // syncer, registrar
	serving sync.WaitGroup
}

// newPart listens and prepares, for a role and, if it is a slave's, a master to copy metadata from.
func (n *node) newPart(role store.Role, master string) (_ *part, err error) {
	p := &part{stop: func() {}}
	defer func() {
		if err != nil {
			p.end(n)
		}
	}()
	dir := metasync.NewDir(n.p.broker.StorePathRootDir, metasync.DirOptions{Damaged: func(path string, err error) { n.p.log.Warn("metadata file damaged", "path", path, "err", err) }})
	if role == store.Slave {
		p.syncer = metasync.NewSyncer(dir, metasync.SyncerOptions{Self: cmp.Or(n.p.brokerAddr, n.p.mainAddr), Events: metasync.SyncEvents{Failed: n.copyFailed()}})
		p.syncer.SetMaster(master)
	} else {
		if p.main, p.vip, err = metasync.ListenPair(n.p.mainAddr); err != nil {
			return nil, listenFailed("slaves' requests for metadata", err, "change listenPort")
		}
		p.metadata = metasync.NewServer(dir, remoting.ServerOptions{})
	}
	if n.p.register {
		if p.registrar, err = metasync.NewRegistrar(n.registration(p, n.brokerID(role))); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// brokerID is the node's in a role: 0 is the master's.
func (n *node) brokerID(role store.Role) int64 {
	if role != store.Slave {
		return 0
	}
	return max(1, n.p.broker.ID)
}

func (p *part) run(n *node) {
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	if p.metadata != nil {
		for _, l := range []net.Listener{p.main, p.vip} {
			p.serving.Go(func() { n.served("metadata", p.metadata.Serve(l)) })
		}
	}
	if p.syncer != nil {
		p.running.Go(func() { _ = p.syncer.Run(ctx) })
	}
	if p.registrar != nil {
		p.registered = true
		p.running.Go(func() { _ = p.registrar.Run(ctx) })
	}
}

func (p *part) end(n *node) {
	p.stop()
	p.running.Wait()
	if p.registered {
		if err := p.registrar.Close(); err != nil {
			n.p.log.Warn("name servers still know this broker, for two minutes at most", "err", err)
		}
	}
	if p.syncer != nil {
		p.syncer.Close()
	}
	if p.metadata != nil {
		p.metadata.Close()
	}
	for _, l := range []net.Listener{p.main, p.vip} {
		if l != nil {
			l.Close() // again, if it was served
		}
	}
	p.serving.Wait()
}

var errOpening = errors.New("the store is being opened")

// become changes the node's role while it runs, and its master's addresses if it is to be a slave: master is the HA address, from is where metadata is copied from. Until the process ends: the file says what it is next time.
func (n *node) become(ctx context.Context, role store.Role, master, from string) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	s := n.store.Load()
	switch {
	case s == nil:
		return errOpening
	case n.closed:
		return store.ErrClosed
	}
	before := s.Role()
	if role == store.Slave && master != "" {
		if err := s.UpdateHaMasterAddress(master); err != nil {
			return err
		}
	}
	kind := func(r store.Role) bool { return r == store.Slave }
	if kind(before) == kind(role) {
		if p := n.part.Load(); p.syncer != nil && from != "" {
			p.syncer.SetMaster(from)
		}
		return s.SetRole(ctx, role)
	}
	next, err := n.newPart(role, from)
	if err != nil {
		return err
	}
	if err := s.SetRole(ctx, role); err != nil {
		next.end(n)
		return err
	}
	n.part.Swap(next).end(n)
	next.run(n)
	return nil
}
