package record

import (
	"fmt"
	"net/netip"
	"strconv"
)

// Host is an address as on disk: 4 or 16 address bytes and a 4-byte port. The zero Host is unknown and is stored as address 0.0.0.0 (or ::, where the system flag asks for 16 bytes).
type Host struct {
	Addr netip.Addr // without a zone
	Port uint32
}

// HostFrom is the Host of a socket's address. An IPv4 address in IPv6 clothes (as a listener for both families reports it) becomes IPv4, as it does in the original; a zone is dropped.
func HostFrom(ap netip.AddrPort) Host {
	return Host{Addr: ap.Addr().Unmap().WithZone(""), Port: uint32(ap.Port())}
}

// ParseHost reads "1.2.3.4:10911" or "[2001:db8::1]:10911". Names are not looked up.
func ParseHost(s string) (Host, error) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return Host{}, fmt.Errorf("host %q: want an IP address and a port, like 1.2.3.4:10911 or [2001:db8::1]:10911: %w", s, err)
	}
	return HostFrom(ap), nil
}

func (h Host) String() string {
	port := strconv.FormatUint(uint64(h.Port), 10)
	switch {
	case !h.Addr.IsValid():
		return "0.0.0.0:" + port
	case h.Addr.Is4():
		return h.Addr.String() + ":" + port
	}
	return "[" + h.Addr.String() + "]:" + port
}

// hostFlag is f with bit set if h needs 16 address bytes. A bit that is set already for an IPv4 address is an error: the two would disagree on disk.
func hostFlag(h Host, f, bit SysFlag, what string) (SysFlag, error) {
	switch {
	case h.Addr.Is4():
		if f&bit != 0 {
			return f, fmt.Errorf("%w: system flag %#x says that the %s is IPv6, but it is %s", ErrHost, uint32(f), what, h)
		}
	case h.Addr.Is6():
		if h.Addr.Zone() != "" {
			return f, fmt.Errorf("%w: %s %s has a zone, which a record cannot hold", ErrHost, what, h)
		}
		f |= bit
	}
	return f, nil
}

// putHost fills b, whose length says how many address bytes there are.
func putHost(b []byte, h Host) {
	switch {
	case !h.Addr.IsValid():
		clear(b)
	case len(b) == hostSizeV6:
		a := h.Addr.As16()
		copy(b, a[:])
	default:
		a := h.Addr.As4()
		copy(b, a[:])
	}
	be.PutUint32(b[len(b)-4:], h.Port)
}

func getHost(b []byte) Host {
	h := Host{Port: be.Uint32(b[len(b)-4:])}
	if len(b) == hostSizeV6 {
		h.Addr = netip.AddrFrom16([16]byte(b))
	} else {
		h.Addr = netip.AddrFrom4([4]byte(b))
	}
	return h
}
