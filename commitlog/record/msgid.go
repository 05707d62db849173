package record

import (
	"encoding/hex"
	"fmt"
)

// An offset message id is the upper-case hexadecimal form of the store host as in a record (4 or 16 address bytes, 4-byte port) and the 8-byte physical offset.
const (
	messageIDSizeV4 = 2 * (hostSizeV4 + 8)
	messageIDSizeV6 = 2 * (hostSizeV6 + 8)
)

// OffsetMessageID names a message by where it is stored: 32 characters for an IPv4 store host, 56 for IPv6. spec/commitlog-format.md 1.9.
func OffsetMessageID(store Host, phyOffset int64) string {
	return offsetMessageID(store, store.Addr.Is6(), phyOffset)
}

func offsetMessageID(store Host, v6 bool, phyOffset int64) string {
	var raw [hostSizeV6 + 8]byte
	n := hostSizeV4
	if v6 {
		n = hostSizeV6
	}
	putHost(raw[:n], store)
	put64(raw[n:], phyOffset)
	const digits = "0123456789ABCDEF"
	var id [messageIDSizeV6]byte
	for i, c := range raw[:n+8] {
		id[2*i], id[2*i+1] = digits[c>>4], digits[c&0xF]
	}
	return string(id[:2*(n+8)])
}

// ParseOffsetMessageID takes an offset message id apart; small letters are as good. The error wraps ErrMessageID.
func ParseOffsetMessageID(s string) (store Host, phyOffset int64, err error) {
	if len(s) != messageIDSizeV4 && len(s) != messageIDSizeV6 {
		return Host{}, 0, fmt.Errorf("%w: %.60q has %d characters, want %d (IPv4) or %d (IPv6)", ErrMessageID, s, len(s), messageIDSizeV4, messageIDSizeV6)
	}
	var buf [hostSizeV6 + 8]byte
	raw := buf[:len(s)/2]
	if _, err := hex.Decode(raw, []byte(s)); err != nil {
		return Host{}, 0, fmt.Errorf("%w: %q: %w", ErrMessageID, s, err)
	}
	n := len(raw) - 8
	store, phyOffset = getHost(raw[:n]), get64(raw[n:])
	if phyOffset < 0 {
		return Host{}, 0, fmt.Errorf("%w: %q holds the negative physical offset %d", ErrMessageID, s, phyOffset)
	}
	return store, phyOffset, nil
}
