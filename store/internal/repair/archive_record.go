package repair

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
)

// archiveRecord is a record's line: the message object of mqstore dump without what can be computed, and with the properties in their writer's order.
type archiveRecord struct {
	PhyOffset                 int64             `json:"phyOffset"`
	Size                      int               `json:"size"`
	Version                   uint8             `json:"version"`
	Topic                     string            `json:"topic"`
	TopicRaw                  []byte            `json:"topicRaw"` // instead of topic, where that is not UTF-8
	QueueID                   int32             `json:"queueId"`
	QueueOffset               int64             `json:"queueOffset"`
	Flag                      int32             `json:"flag"`
	SysFlag                   int32             `json:"sysFlag"`
	BornTimestamp             int64             `json:"bornTimestamp"`
	BornHost                  string            `json:"bornHost"`
	StoreTimestamp            int64             `json:"storeTimestamp"`
	StoreHost                 string            `json:"storeHost"`
	ReconsumeTimes            int32             `json:"reconsumeTimes"`
	PreparedTransactionOffset int64             `json:"preparedTransactionOffset"`
	BodyCRC                   uint32            `json:"bodyCRC"`
	Properties                orderedProperties `json:"properties"`
	PropertiesEnd             bool              `json:"propertiesEnd"` // a separator stands behind the last property
	PropertiesRaw             []byte            `json:"propertiesRaw"` // instead of properties, where those are not UTF-8 text of names and values
	Body                      []byte            `json:"body"`          // as stored
}

// decode reads a line. In a long one names that are not known are passed over: the decoder that refuses them would hold the line twice more.
func (r *archiveRecord) decode(line []byte) error {
	*r = archiveRecord{}
	if len(line) > longLine {
		return json.Unmarshal(line, r)
	}
	return strict(line, r)
}

// orderedProperties is an object whose order counts, and that may have a name twice.
type orderedProperties [][2]string

// UnmarshalJSON reads an object of strings.
func (p *orderedProperties) UnmarshalJSON(b []byte) error {
	if len(b) > maxArchivedFields {
		return fmt.Errorf("properties of %d bytes are more than a record has", len(b))
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("properties are not an object")
	}
	for d.More() {
		var pair [2]string
		for i := range pair {
			t, err := d.Token()
			if err != nil {
				return err
			}
			s, ok := t.(string)
			if !ok {
				return fmt.Errorf("property %q is no text", pair[0])
			}
			pair[i] = s
		}
		*p = append(*p, pair)
	}
	return nil
}

func (r *archiveRecord) properties() (record.Properties, error) {
	if r.PropertiesRaw != nil {
		if r.Properties != nil || r.PropertiesEnd {
			return nil, errors.New("properties and propertiesRaw")
		}
		return r.PropertiesRaw, nil
	}
	if len(r.Properties) == 0 {
		return nil, nil
	}
	var b []byte
	for i, p := range r.Properties {
		if i > 0 {
			b = append(b, propertySeparator...)
		}
		b = append(append(append(b, p[0]...), nameSeparator...), p[1]...)
	}
	if r.PropertiesEnd {
		b = append(b, propertySeparator...)
	}
	return b, nil
}

// message is the message of the line.
func (r *archiveRecord) message() (*record.Message, error) {
	born, err := archivedHost(r.BornHost)
	if err != nil {
		return nil, fmt.Errorf("bornHost: %w", err)
	}
	stored, err := archivedHost(r.StoreHost)
	if err != nil {
		return nil, fmt.Errorf("storeHost: %w", err)
	}
	properties, err := r.properties()
	if err != nil {
		return nil, err
	}
	topic := r.Topic
	if r.TopicRaw != nil {
		if topic != "" {
			return nil, errors.New("topic and topicRaw")
		}
		topic = string(r.TopicRaw)
	}
	if r.Version != uint8(record.V1) && r.Version != uint8(record.V2) {
		return nil, fmt.Errorf("version %d", r.Version)
	}
	if r.PhyOffset < 0 {
		return nil, fmt.Errorf("physical offset %d", r.PhyOffset)
	}
	return &record.Message{
		Version: record.Version(r.Version), Topic: topic, QueueID: r.QueueID, Flag: r.Flag, SysFlag: record.SysFlag(r.SysFlag),
		BornTimestamp: r.BornTimestamp, BornHost: born, StoreHost: stored, ReconsumeTimes: r.ReconsumeTimes,
		PreparedTransactionOffset: r.PreparedTransactionOffset, Body: r.Body, Properties: properties,
		StoreTimestamp: r.StoreTimestamp, QueueOffset: r.QueueOffset, PhyOffset: r.PhyOffset,
	}, nil
}

// archivedHost reads Host.String. Unlike record.ParseHost it keeps an IPv4 address in IPv6 clothes, and any port of 32 bits.
func archivedHost(s string) (record.Host, error) {
	const longest = 64 // "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:4294967295"
	if len(s) > longest {
		return record.Host{}, fmt.Errorf("%d bytes are no address and port", len(s))
	}
	addr, port, ok := cutLast(s, ":")
	if inner, v6 := strings.CutPrefix(addr, "["); v6 {
		addr, ok = strings.CutSuffix(inner, "]")
	}
	if !ok {
		return record.Host{}, fmt.Errorf("%q is no address and port", s)
	}
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return record.Host{}, err
	}
	n, err := strconv.ParseUint(port, 10, 32)
	return record.Host{Addr: a, Port: uint32(n)}, err
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
