package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ownPrefix begins the keys that are this engine's own; RocketMQ ignores them.
const ownPrefix = "mqstore."

// BrokerExtended is what a file says about the extended protocol of replication, in keys of this engine's own: mqstore.ha.listen, .master, .cert, .key, .ca, .tokenFile, .compress, .resyncFrom.
// HAOptions.Extended is made of it once the files are read, which ReadProperties does not do.
type BrokerExtended struct {
	ListenAddress string // host:port
	MasterAddress string // host:port of the master's extended listener
	Cert, Key, CA string // PEM files: this node's certificate and key, and the authority that signed the other's
	TokenFile     string // its first line is the token
	Compress      bool
	ResyncFrom    ResyncFrom
}

// Configured reports whether the file says anything about it.
func (e *BrokerExtended) Configured() bool { return *e != BrokerExtended{} }

// ownKeys set what is this engine's own.
var ownKeys = map[string]func(p *properties, l propertyLine) error{
	"mqstore.ha.classic":       func(p *properties, l propertyLine) (err error) { on, err := l.bool(); p.b.NoClassic = !on; return err },
	"mqstore.ha.reportFlushed": func(p *properties, l propertyLine) (err error) { p.o.HA.ReportFlushed, err = l.bool(); return err },
	"mqstore.ha.requiredAcks": func(p *properties, l propertyLine) error {
		n, err := l.int(1, 100)
		p.o.HA.RequiredAcks = int(n)
		return err
	},
	"mqstore.ha.listen":    func(p *properties, l propertyLine) error { return l.address(&p.b.Extended.ListenAddress) },
	"mqstore.ha.master":    func(p *properties, l propertyLine) error { return l.address(&p.b.Extended.MasterAddress) },
	"mqstore.ha.cert":      func(p *properties, l propertyLine) error { return l.file(&p.b.Extended.Cert) },
	"mqstore.ha.key":       func(p *properties, l propertyLine) error { return l.file(&p.b.Extended.Key) },
	"mqstore.ha.ca":        func(p *properties, l propertyLine) error { return l.file(&p.b.Extended.CA) },
	"mqstore.ha.tokenFile": func(p *properties, l propertyLine) error { return l.file(&p.b.Extended.TokenFile) },
	"mqstore.ha.compress":  func(p *properties, l propertyLine) (err error) { p.b.Extended.Compress, err = l.bool(); return err },
	"mqstore.ha.resyncFrom": func(p *properties, l propertyLine) error {
		for _, r := range []ResyncFrom{FirstSegment, LastSegment} {
			if l.value == r.String() {
				p.b.Extended.ResyncFrom = r
				return nil
			}
		}
		return l.bad("firstSegment or lastSegment")
	},
}

// setOwn refuses what it does not know: nobody else gives these keys a meaning, and a misspelt one would leave replication without what it was to have.
func (p *properties) setOwn(l propertyLine) error {
	set := ownKeys[l.key]
	if set == nil {
		return fmt.Errorf("line %d: %s: no such key; there are %s", l.line, l.key, strings.Join(slices.Sorted(maps.Keys(ownKeys)), ", "))
	}
	return set(p, l)
}

func (l propertyLine) address(v *string) error {
	if l.value == "" || checkMasterAddress(l.value) != nil {
		return l.bad("host:port")
	}
	*v = l.value
	return nil
}

func (l propertyLine) file(v *string) error {
	if l.value == "" {
		return l.bad("a file")
	}
	*v = l.value
	return nil
}
