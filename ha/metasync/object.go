package metasync

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/mqstore/mqstore/ha/remoting"
)

// Fields are members of a JSON object that this package does not know, as they were read: valid JSON, none of them null. They are written again.
// A member that the package does know goes before one of the same name here.
type Fields map[string]json.RawMessage

// decodeObject is the JSON object text, which must be plain JSON; null is an object without members.
func decodeObject(text []byte) (Fields, error) {
	var f Fields
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	maps.DeleteFunc(f, func(_ string, v json.RawMessage) bool { return len(v) == 0 || string(v) == "null" })
	return f, nil
}

// take moves a member to dst, which stays as it is if there is none.
func (f Fields) take(name string, dst any) error {
	raw, ok := f[name]
	if !ok {
		return nil
	}
	delete(f, name)
	if err := json.Unmarshal(raw, dst); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// rest is what was not taken; nil if nothing.
func (f Fields) rest() Fields {
	if len(f) == 0 {
		return nil
	}
	return f
}

// member is one that the package knows.
type member struct {
	name  string
	value any
}

// with is the JSON object of f and the members, in order of their names.
func (f Fields) with(members ...member) ([]byte, error) {
	all := make(map[string]any, len(f)+len(members))
	for k, v := range f {
		all[k] = v
	}
	for _, m := range members {
		all[m.name] = m.value
	}
	return remoting.Marshal(all)
}

// takeAll takes members in order until the first error.
func (f Fields) takeAll(members ...member) error {
	for _, m := range members {
		if err := f.take(m.name, m.value); err != nil {
			return err
		}
	}
	return nil
}

// withoutNulls is table without entries that were null in the text; never nil.
func withoutNulls[K comparable, V any](table map[K]*V) map[K]V {
	out := make(map[K]V, len(table))
	for k, v := range table {
		if v != nil {
			out[k] = *v
		}
	}
	return out
}
