package metasync

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/mqstore/mqstore/ha/remoting"
)

// Source is a master's tables. Its methods are called by several goroutines at a time; what they return is read only until the call of the server is answered, and must not change meanwhile.
type Source interface {
	Topics(ctx context.Context) (TopicConfigTable, error)
	ConsumerOffsets(ctx context.Context) (ConsumerOffsets, error)
	DelayOffsets(ctx context.Context) (DelayOffsets, error)
	SubscriptionGroups(ctx context.Context) (SubscriptionGroups, error)
}

// vipDistance is how far below a broker's port its second port lies, where slaves ask for topics.
const vipDistance = 2

// Handlers answer codes 21, 43, 45 and 201 from s, for a broker that has a remoting server of its own.
func Handlers(s Source) map[int32]remoting.Handler {
	return map[int32]remoting.Handler{
		KindTopics.Code():             handler(s.Topics),
		KindConsumerOffsets.Code():    handler(s.ConsumerOffsets),
		KindDelayOffsets.Code():       handler(s.DelayOffsets),
		KindSubscriptionGroups.Code(): handler(s.SubscriptionGroups),
	}
}

func handler[T any](get func(context.Context) (T, error)) remoting.Handler {
	return func(ctx context.Context, _ net.Addr, _ *remoting.Command) (*remoting.Command, error) {
		v, err := get(ctx)
		if err != nil {
			return nil, err
		}
		body, err := remoting.Marshal(v)
		if err != nil {
			return nil, err
		}
		return &remoting.Command{Language: remoting.Go, Version: remoting.Version409, Body: body}, nil
	}
}

// NewServer answers slaves from s. Serve it on both listeners of ListenPair: a slave asks for topics at port − 2, for the rest at the port.
// Its limits are those of requests without a body: frames of 64 KiB, 64 connections, unless o says otherwise. It asks nobody who they are.
func NewServer(s Source, o remoting.ServerOptions) *remoting.Server {
	if o.MaxFrame <= 0 {
		o.MaxFrame = 64 << 10
	}
	if o.MaxConns <= 0 {
		o.MaxConns = 64
	}
	return remoting.NewServer(Handlers(s), o)
}

// ListenPair listens on a broker's address ("host:port"; an empty host is every interface) and on the port two below it. Port 0 finds a free pair.
func ListenPair(addr string) (main, vip net.Listener, err error) {
	host, port, err := splitPort(addr)
	if err != nil {
		return nil, nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	tries := 1
	if port == 0 {
		tries = 100
	}
	for range tries {
		main, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return nil, nil, err
		}
		got := main.Addr().(*net.TCPAddr).Port
		vip, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(got-vipDistance)))
		if err == nil {
			return main, vip, nil
		}
		main.Close()
	}
	return nil, nil, fmt.Errorf("second port of %s, where slaves ask for topics: %w", addr, err)
}

// vipAddr is the address two ports below addr.
func vipAddr(addr string) (string, error) {
	host, port, err := splitPort(addr)
	if err != nil {
		return "", err
	}
	if port <= vipDistance {
		return "", fmt.Errorf("port %d has none two below it", port)
	}
	return net.JoinHostPort(host, strconv.Itoa(port-vipDistance)), nil
}

func splitPort(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q is no number up to 65535", p)
	}
	if 0 < n && n <= vipDistance {
		return "", 0, fmt.Errorf("port %d has none two below it", n)
	}
	return host, int(n), nil
}
