package store

import (
	"strings"
	"testing"
)

// TestOwnProperties: this engine's keys are read, and a misspelt or impossible one is an error and not a note, since nobody else gives it a meaning.
func TestOwnProperties(t *testing.T) {
	o, b, unknown, err := ReadProperties(strings.NewReader(`brokerRole=SYNC_MASTER
mqstore.ha.listen=[::1]:10913
mqstore.ha.master=a.example.com:10913
mqstore.ha.cert=/etc/cert.pem
mqstore.ha.key=/etc/key.pem
mqstore.ha.ca=/etc/ca.pem
mqstore.ha.tokenFile=/etc/token
mqstore.ha.compress=true
mqstore.ha.resyncFrom=lastSegment
mqstore.ha.reportFlushed=true
mqstore.ha.requiredAcks=2
mqstore.ha.classic=false
`))
	want := BrokerExtended{"[::1]:10913", "a.example.com:10913", "/etc/cert.pem", "/etc/key.pem", "/etc/ca.pem", "/etc/token", true, LastSegment}
	if err != nil || len(unknown) != 0 || b.Extended != want || !b.Extended.Configured() || !b.NoClassic || !o.HA.ReportFlushed || o.HA.RequiredAcks != 2 {
		t.Errorf("%+v %+v %v %v", b.Extended, o.HA, unknown, err)
	}
	for _, line := range []string{"mqstore.ha.listn=:1", "mqstore.ha.listen=1", "mqstore.ha.master=", "mqstore.ha.compress=yes", "mqstore.ha.resyncFrom=middle", "mqstore.ha.requiredAcks=0", "mqstore.ha.cert=", "mqstore.x=1"} {
		if _, _, _, err := ReadProperties(strings.NewReader("\n" + line + "\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, b, _, err := ReadProperties(strings.NewReader("brokerRole=SLAVE\n")); err != nil || b.Extended.Configured() || b.NoClassic {
		t.Errorf("%+v %v", b, err)
	}
}
