package golden

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Event is one entry of a timeline. Fields holds whatever else was noted (text or json.Number).
type Event struct {
	T      int64 // ms since T0EpochMillis
	Event  string
	Fields map[string]any
}

// UnmarshalJSON keeps all fields: each event has its own.
func (e *Event) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&e.Fields); err != nil {
		return err
	}
	t, ok := e.Fields["t"].(json.Number)
	name, ok2 := e.Fields["event"].(string)
	if !ok || !ok2 {
		return fmt.Errorf("event %.80s has no t or no event", b)
	}
	delete(e.Fields, "t")
	delete(e.Fields, "event")
	var err error
	e.Event = name
	e.T, err = t.Int64()
	return err
}

// Stream is what one direction of a connection carried, decoded: "1M>S" has Frames (Size 0: a heartbeat), "1S>M" has Reports.
type Stream struct {
	Stream   string  `json:"stream"`
	Bytes    int     `json:"bytes"`
	Frames   Ranges  `json:"frames"`
	Trailing int     `json:"trailing"` // bytes after the last whole frame
	Reports  Offsets `json:"reports"`
}

// Offsets is a list of physical offsets.
type Offsets []int64

// UnmarshalJSON reads "0 65536 89237".
func (o *Offsets) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*o = nil
	for f := range strings.FieldsSeq(s) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return err
		}
		*o = append(*o, n)
	}
	return nil
}

// Chunk is one read on the wire between master and slave, or a change of the connection.
type Chunk struct {
	T    int64  `json:"t"` // ms since T0EpochMillis
	Conn int    `json:"conn"`
	Dir  string `json:"dir"` // "M>S", "S>M"; without bytes: "connect", "S>M EOF", "M>S Socket closed" …
	Len  int    `json:"len"`
	Hex  string `json:"hex"`
	Data []byte `json:"-"`
}

// LoadCapture reads the wire's bytes of ha-capture in order of time.
func LoadCapture(t testing.TB) []Chunk {
	t.Helper()
	var chunks []Chunk
	for line := range bytes.Lines(ReadFile(t, "ha-capture", "capture.jsonl")) {
		var c Chunk
		if err := strict(line, &c); err != nil {
			t.Fatalf("golden ha-capture: capture.jsonl line %d: %v", len(chunks)+1, err)
		}
		var err error
		if c.Data, err = hex.DecodeString(c.Hex); err != nil || len(c.Data) != c.Len {
			t.Fatalf("golden ha-capture: capture.jsonl line %d: %d bytes instead of %d: %v", len(chunks)+1, len(c.Data), c.Len, err)
		}
		chunks = append(chunks, c)
	}
	return chunks
}

// LoadProbes reads what master and slave did when the peer said strange things.
func LoadProbes(t testing.TB) []Event {
	t.Helper()
	var p struct {
		Timeline []Event `json:"timeline"`
	}
	if err := strict(ReadFile(t, "ha-capture", "probes.json"), &p); err != nil {
		t.Fatalf("golden ha-capture: probes.json: %v", err)
	}
	return p.Timeline
}
