package ha

import (
	"fmt"
	"net"
)

// DefaultPort is RocketMQ's haListenPort.
const DefaultPort = "10912"

// ListenClassic listens on address for Master.Serve. Without a host (":10912"; "" is that) it binds loopback only, since the classic protocol has no authentication:
// to listen to the world, name an address ("0.0.0.0:10912"), and expect the Warning of Serve.
func ListenClassic(address string) (net.Listener, error) {
	if address == "" {
		address = ":" + DefaultPort
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen for slaves on %q: %w", address, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("listen for slaves: %w", err)
	}
	return l, nil
}
