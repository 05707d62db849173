package repair

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
)

const plainLine = `{"phyOffset":0,"size":130,"version":1,"topic":"T","queueId":1,"queueOffset":2,"flag":-3,"sysFlag":0,"bornTimestamp":4,"bornHost":"1.2.3.4:5",` +
	`"storeTimestamp":6,"storeHost":"7.8.9.10:11","reconsumeTimes":12,"preparedTransactionOffset":13,"bodyCRC":14,"properties":{"a":"b","c":"d"},"propertiesEnd":true,"body":"AQID"}`

func parsed(line string) (*archiveRecord, *record.Message, error) {
	var r archiveRecord
	if err := r.decode([]byte(line)); err != nil {
		return nil, nil, err
	}
	m, err := r.message()
	return &r, m, err
}

// What a line means does not depend on how it is written.
func TestALineMeansTheSameHoweverItIsWritten(t *testing.T) {
	says, want, err := parsed(plainLine)
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for part := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(plainLine, "{"), "}"), `,"`) {
		if part = `"` + strings.TrimPrefix(part, `"`); strings.HasPrefix(part, `"c"`) {
			fields[len(fields)-1] += "," + part
			continue
		}
		fields = append(fields, part)
	}
	backwards := ""
	for _, f := range fields {
		backwards = "," + f + backwards
	}
	for name, line := range map[string]string{
		"spaces":    " " + strings.NewReplacer(`{`, "{ ", `:"`, ": \t\"", `,`, " ,\r ", `}`, " }").Replace(plainLine) + "\n",
		"backwards": "{" + backwards[1:] + "}",
		"escapes":   strings.NewReplacer(`"T"`, `"\u0054"`, `"a"`, `"\u0061"`, `"topic"`, `"t\u006fpic"`, `"AQID"`, `"A\u0051ID"`).Replace(plainLine),
		"minus 0":   strings.Replace(plainLine, `"phyOffset":0`, `"phyOffset":-0`, 1),
	} {
		r, got, err := parsed(line)
		if err != nil {
			t.Errorf("%s: %v in %s", name, err, line)
			continue
		}
		if g, w := appendArchived(nil, got), appendArchived(nil, want); !bytes.Equal(g, w) || r.Size != says.Size || r.BodyCRC != says.BodyCRC {
			t.Errorf("%s:\n%s\nwant\n%s", name, g, w)
		}
	}
}

func TestALineThatIsNoneIsRefused(t *testing.T) {
	for _, c := range []struct{ old, new, says string }{
		{`"flag":-3`, `"colour":-3`, "unknown field"},
		{`"flag":-3`, `"flag":1.5`, "flag"},
		{`"flag":-3`, `"flag":01`, "invalid character"},
		{`"flag":-3`, `"flag":2147483648`, "flag"},
		{`"flag":-3`, `"flag":-2147483649`, "flag"},
		{`"storeTimestamp":6`, `"storeTimestamp":9223372036854775808`, "storeTimestamp"},
		{`"phyOffset":0`, `"phyOffset":-1`, "physical offset"},
		{`"topic":"T"`, `"topic":"\x41"`, "escape"},
		{`"topic":"T"`, "\"topic\":\"\x01\"", "invalid character"},
		{`"topic":"T"`, `"topic":"T","topicRaw":"VA=="`, "topicRaw"},
		{`"topic":"T"`, `"topic":T`, "invalid character"},
		{`"bornHost":"1.2.3.4:5"`, `"bornHost":"` + strings.Repeat("1", 100) + `"`, "bornHost: 100 bytes"},
		{`"bornHost":"1.2.3.4:5",`, ``, "bornHost"},
		{`"version":1`, `"version":3`, "version 3"},
		{`"version":1,`, ``, "version 0"},
		{`"properties":{`, `"propertiesRaw":"","properties":{`, "propertiesRaw"},
		{`{"a":"b"`, `{"a":"` + strings.Repeat("b", maxArchivedFields) + `"`, "more than a record has"},
		{`{"a":"b"`, `{"a":1`, "no text"},
		{`"AQID"`, `"AQI"`, "base64"},
		{`"AQID"`, `"AQID`, "EOF"},
		{`"AQID"}`, `"AQID"`, "EOF"},
		{`"AQID"}`, `"AQID"} x`, "follows"},
		{`"propertiesEnd":true`, `"propertiesEnd":1`, "propertiesEnd"},
	} {
		line := strings.Replace(plainLine, c.old, c.new, 1)
		if line == plainLine {
			t.Fatalf("%s is not in the line", c.old)
		}
		if _, m, err := parsed(line); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v; want %q", c.new[:min(len(c.new), 60)], m, err, c.says)
		}
	}
	for _, line := range []string{"", " ", "{", "null", "[]", `"x"`, "{}", `{"`, `{"a`, "{,}"} {
		if _, _, err := parsed(line); err == nil {
			t.Errorf("%q is a line", line)
		}
	}
}
