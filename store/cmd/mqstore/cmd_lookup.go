package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strconv"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store/internal/repair"
)

type lookupCmd struct {
	storeArgs
	Which  string `arg:"" name:"phyoffset-or-msgid" help:"Physical offset, or the offset message id (32 or 56 hex digits) that a broker or get prints."`
	Decode bool   `name:"decode" help:"Body decompressed."`
	jsonFlag
}

func (*lookupCmd) Examples() string {
	return "  mqstore lookup /data/store 1073742336\n  mqstore lookup --json /data/store C0A8070900002A9F0000000000000203"
}

func (c *lookupCmd) Run(e *env) error {
	phyOffset, host, err := parseWhich(c.Which)
	if err != nil {
		return err
	}
	l, err := e.look(c.storeArgs)
	if err != nil {
		return err
	}
	defer l.close()
	rec, err := l.files.At(phyOffset)
	if err != nil {
		return c.missed(l, phyOffset, err)
	}
	m := rec.Message
	if host != "" && host != m.StoreHost.String() {
		e.note("note: the id names store host %s, the record %s: another store's id?", host, m.StoreHost)
	}
	j, bodyErr := newMessageJSON(m, rec.CRC == nil, c.Decode)
	if c.JSON {
		err = e.json(j)
	} else {
		e.detail(j)
	}
	switch {
	case err != nil:
		return err
	case rec.CRC != nil:
		return nothing("the record at physical offset %d is damaged: %v", phyOffset, rec.CRC)
	case bodyErr != nil:
		return &foundError{bodyErr}
	}
	return nil
}

// parseWhich tells a physical offset from a message id by its length.
func parseWhich(s string) (phyOffset int64, host string, err error) {
	switch len(s) {
	case 32, 56:
		h, off, err := record.ParseOffsetMessageID(s)
		if err != nil {
			return 0, "", usage("message id: %w", err)
		}
		if off < 0 {
			return 0, "", usage("message id %s holds the physical offset %d, which is negative", s, off)
		}
		return off, h.String(), nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, "", usage("%q is neither a physical offset nor an offset message id of 32 or 56 hex digits (a unique id, UNIQ_KEY, is a key: see dump --json)", s)
	}
	return n, "", nil
}

// missed says why there is no record at phyOffset, and where the nearest one is.
func (c *lookupCmd) missed(l *look, phyOffset int64, err error) error {
	if !errors.Is(err, repair.ErrNoRecord) && !errors.Is(err, fs.ErrNotExist) {
		return explain(c.Dir, err)
	}
	segs := l.files.Segments()
	if len(segs) == 0 {
		return nothing("no record at physical offset %d: the store has no log files", phyOffset)
	}
	if lo, hi := segs[0].Start, segs[len(segs)-1].End(); phyOffset < lo || phyOffset >= hi {
		return nothing("no record at physical offset %d: the log's files hold [%d, %d)", phyOffset, lo, hi)
	}
	start, n, werr := l.files.Around(l.e.ctx, phyOffset)
	if werr != nil {
		return werr
	}
	if n > 0 {
		return nothing("no record begins at physical offset %d: it lies in the record at %d, of %d bytes", phyOffset, start, n)
	}
	return nothing("no record at physical offset %d: %v", phyOffset, err)
}

// detail prints one message for a human.
func (e *env) detail(j *messageJSON) {
	line := func(name, format string, args ...any) {
		e.printf("%-12s %s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	line("record", "%d, %s, v%d", j.PhyOffset, count(j.Size, "byte", "bytes"), j.Version)
	line("message id", "%s", j.MsgID)
	line("topic", "%s", j.Topic)
	line("queue", "%d at offset %d", j.QueueID, j.QueueOffset)
	line("born", "%s at %s", stamp(j.BornTimestamp), j.BornHost)
	line("stored", "%s at %s", stamp(j.StoreTimestamp), j.StoreHost)
	line("tags", "%s", orDash(j.Tags))
	line("keys", "%s", orDash(strings.Join(j.Keys, " ")))
	line("unique key", "%s", orDash(j.UniqKey))
	line("flags", "flag %d, sysFlag %d", j.Flag, j.SysFlag)
	if j.Transaction != "none" {
		line("transaction", "%s, prepared at %d", j.Transaction, j.PreparedTransactionOffset)
	}
	if j.ReconsumeTimes != 0 {
		line("reconsumed", "%d times", j.ReconsumeTimes)
	}
	names := make([]string, 0, len(j.Properties))
	for name := range j.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		line("property", "%s=%s", name, j.Properties[name])
	}
	crc := "verifies"
	if !j.CRCOK {
		crc = "DOES NOT VERIFY"
	}
	line("body", "%s, compression %s, CRC %08x %s", size(int64(j.BodySize)), j.Compression, j.BodyCRC, crc)
	const shown = 256
	e.printf("%s", hex.Dump(j.Body[:min(shown, len(j.Body))]))
	if n := len(j.Body) - shown; n > 0 {
		e.printf("and %s more (--json has all of it)\n", count(n, "byte", "bytes"))
	}
}
