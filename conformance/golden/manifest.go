package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Manifest is manifest.json of one golden directory. Timestamps are milliseconds; -1 is the original's "none".
// Sections that a directory does not have are zero. Sections that the file writes as "same as …" are filled with what they refer to.
type Manifest struct {
	Scenario string `json:"scenario"`
	Oracle   string `json:"oracle"`
	Note     string `json:"note"`
	Config   Config `json:"config"`

	Puts    []Put    `json:"puts"`
	Records []Record `json:"records"` // every record of the log in order, blanks included
	Queries *Queries `json:"queries"`
	Files   []File   `json:"files"`

	CheckpointOnDisk       *Checkpoint `json:"checkpointOnDisk"`
	AbortFileAfterShutdown bool        `json:"abortFileAfterShutdown"`
	Reopened               *Opened     `json:"reopened"` // a clean reopen of a copy

	// Directories with store-before and store-after.
	Damage                string   `json:"damage"` // what was done between the exit and the next open
	KilledWith            string   `json:"killedWith"`
	QueriesBeforeShutdown *Queries `json:"queriesBeforeShutdown"`
	Before                *Before  `json:"before"`
	After                 *Opened  `json:"after"`
	AfterPuts             *Opened  `json:"afterPuts"` // another copy of store-before, with a few puts

	// consumequeueext, delay, deleted-head.
	Ext             []ExtUnit `json:"ext"`
	DelayOffsetJSON string    `json:"delayOffset.json"`
	DeletedBy       string    `json:"deletedBy"`
	BeforeDelete    *Bounds   `json:"beforeDelete"`

	// ha-capture.
	T0EpochMillis    int64       `json:"t0EpochMillis"`
	MasterConfig     Config      `json:"masterConfig"`
	SlaveConfig      Config      `json:"slaveConfig"`
	MasterRecords    []Record    `json:"masterRecords"`
	SlaveRecords     []Record    `json:"slaveRecords"`
	MasterQueries    *Queries    `json:"masterQueries"`
	SlaveQueries     *Queries    `json:"slaveQueries"`
	MasterCheckpoint *Checkpoint `json:"masterCheckpoint"`
	SlaveCheckpoint  *Checkpoint `json:"slaveCheckpoint"`
	MasterFiles      []File      `json:"masterFiles"`
	SlaveFiles       []File      `json:"slaveFiles"`
	Frames           []Stream    `json:"frames"`
	Timeline         []Event     `json:"timeline"`
	CaptureNote      string      `json:"captureNote"`
}

// Load reads the manifest of the golden directory name. Each call returns a copy of its own.
func Load(t testing.TB, name string) *Manifest {
	t.Helper()
	b, err := readFile(name, "manifest.json")
	if err != nil {
		t.Fatalf("golden %s: %v", name, err)
	}
	m, err := parse(b)
	if err != nil {
		t.Fatalf("golden %s: manifest.json: %v", name, err)
	}
	return m
}

func parse(b []byte) (*Manifest, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var root any
	if err := d.Decode(&root); err != nil {
		return nil, err
	}
	root, err := resolve(root, root, 0)
	if err != nil {
		return nil, err
	}
	if b, err = json.Marshal(root); err != nil {
		return nil, err
	}
	m := new(Manifest)
	return m, strict(b, m)
}

const sameAs = "same as "

// resolve replaces every "same as path" under v by the value at that path of root.
func resolve(root, v any, depth int) (any, error) {
	if depth > 64 {
		return nil, fmt.Errorf("%q refers to itself", sameAs)
	}
	var err error
	switch v := v.(type) {
	case string:
		p, ok := strings.CutPrefix(v, sameAs)
		if !ok {
			return v, nil
		}
		target := root
		for key := range strings.SplitSeq(p, ".") {
			o, _ := target.(map[string]any)
			if target, ok = o[key]; !ok {
				return nil, fmt.Errorf("%q: no such section", v)
			}
		}
		return resolve(root, target, depth+1)
	case map[string]any:
		for k := range v {
			if v[k], err = resolve(root, v[k], depth+1); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = resolve(root, v[i], depth+1); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// strict decodes b into v and refuses a field that v does not have.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// Config is every store property in force, by RocketMQ's name.
type Config map[string]any

// Int is a number; it panics if the property is missing or is none.
func (c Config) Int(name string) int64 {
	n, err := c[name].(json.Number).Int64()
	if err != nil {
		panic(err)
	}
	return n
}

// String is a text; "" for null. It panics if the property is missing.
func (c Config) String(name string) string {
	v, ok := c[name]
	if !ok {
		panic("golden: no property " + name)
	}
	s, _ := v.(string)
	return s
}

// Bool is true or false; it panics if the property is missing or is neither.
func (c Config) Bool(name string) bool { return c[name].(bool) }

// File is one file of a directory as it was left.
type File struct {
	Path   string `json:"path"` // with slashes, below the store's root
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Checkpoint is the checkpoint's three times.
type Checkpoint struct {
	PhysicMsgTimestamp int64 `json:"physicMsgTimestamp"`
	LogicsMsgTimestamp int64 `json:"logicsMsgTimestamp"`
	IndexMsgTimestamp  int64 `json:"indexMsgTimestamp"`
}

// Bounds is the log's first and last offset.
type Bounds struct {
	MinPhyOffset int64 `json:"minPhyOffset"`
	MaxPhyOffset int64 `json:"maxPhyOffset"`
}

// Before is a directory before the original opened it again.
type Before struct {
	StoreDir         string     `json:"storeDir"`
	AbortFile        bool       `json:"abortFile"`
	CheckpointOnDisk Checkpoint `json:"checkpointOnDisk"`
	Files            []File     `json:"files"`
}

// Opened is one load, start and shutdown of the original and its answers in between.
type Opened struct {
	What                   string     `json:"what"`
	StoreDir               string     `json:"storeDir"` // "tmp": the directory was not kept
	CheckpointOnDiskBefore Checkpoint `json:"checkpointOnDiskBefore"`
	AbortFileBefore        bool       `json:"abortFileBefore"`
	Load                   bool       `json:"load"`
	AfterLoadBeforeStart   struct {
		Bounds
		Queues map[string]LoadedQueue `json:"queues"` // key "topic-queueId"
	} `json:"afterLoadBeforeStart"`
	ReputFromOffsetLog    string     `json:"reputFromOffsetLog"`
	Records               []Record   `json:"records"`
	Puts                  []Put      `json:"puts"`
	Queries               *Queries   `json:"queries"`
	AbortFileAfter        bool       `json:"abortFileAfter"`
	CheckpointOnDiskAfter Checkpoint `json:"checkpointOnDiskAfter"`
	Files                 []File     `json:"files"`
}

// LoadedQueue is a consume queue after the original's recovery and before its dispatch.
type LoadedQueue struct{ Min, Max, MaxPhysicOffset int64 }

// UnmarshalJSON reads "min=0 max=33 maxPhysicOffset=154122".
func (q *LoadedQueue) UnmarshalJSON(b []byte) error {
	return scan(b, "min=%d max=%d maxPhysicOffset=%d", &q.Min, &q.Max, &q.MaxPhysicOffset)
}

// ExtUnit is a consume queue unit and the extension unit that it points to.
type ExtUnit struct {
	QueueID         int32  `json:"queueId"`
	Offset          int64  `json:"offset"` // queue offset
	PhyOffset       int64  `json:"phyOffset"`
	Size            int32  `json:"size"`
	TagsCodeField   int64  `json:"tagsCodeField"` // the unit's third field: an address
	IsExtAddr       bool   `json:"isExtAddr"`
	ExtTagsCode     int64  `json:"extTagsCode"`
	ExtMsgStoreTime int64  `json:"extMsgStoreTime"`
	ExtBitMap       string `json:"extBitMap"` // hex; "" = none
	ExtSize         int    `json:"extSize"`
}

// scan reads a JSON string by a fmt.Sscanf format.
func scan(b []byte, format string, args ...any) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if _, err := fmt.Sscanf(s, format, args...); err != nil {
		return fmt.Errorf("%q is not %q: %w", s, format, err)
	}
	return nil
}
