package main

import (
	"fmt"
	"math"
	"time"

	"github.com/dustin/go-humanize"
)

// benchJSON is everything that was measured. A kind of work that was not asked for is nil.
type benchJSON struct {
	Directory       string  `json:"directory"`
	FileSystem      string  `json:"fileSystem,omitempty"` // as the device and the mount point, left out where the system does not say
	Device          string  `json:"device,omitempty"`
	MountPoint      string  `json:"mountPoint,omitempty"`
	FreeBytes       int64   `json:"freeBytes"` // -1: unknown
	NeededBytes     int64   `json:"neededBytes"`
	CPUs            int     `json:"cpus"`
	Version         string  `json:"version"`
	BodyBytes       int64   `json:"bodyBytes"`
	RecordBytes     int64   `json:"recordBytes"`
	Producers       int     `json:"producers"`
	DurationSeconds float64 `json:"durationSeconds"` // of each kind of work
	Seconds         float64 `json:"seconds"`         // all of it

	Disk     benchDiskJSON      `json:"disk"`
	PutAsync *benchPutAsyncJSON `json:"putAsync,omitempty"`
	PutSync  *benchPutSyncJSON  `json:"putSync,omitempty"`
	PutHA    *benchPutHAJSON    `json:"putHA,omitempty"`
	Get      *benchGetJSON      `json:"get,omitempty"`
	Query    *benchQueryJSON    `json:"query,omitempty"`
	Recovery *benchRecoveryJSON `json:"recovery,omitempty"`
}

// benchDiskJSON is about fdatasyncs of 4 KiB, one at a time.
type benchDiskJSON struct {
	Verdict            string  `json:"verdict"` // plausible, fast, slow, lies, memory, network
	Says               string  `json:"says"`
	Fdatasyncs         int64   `json:"fdatasyncs"`
	FdatasyncP50Micros float64 `json:"fdatasyncP50Micros"`
	FdatasyncP99Micros float64 `json:"fdatasyncP99Micros"`
	WriteCache         string  `json:"writeCache,omitempty"`    // of the device: "write back", "write through"
	DeviceFlushes      *int64  `json:"deviceFlushes,omitempty"` // how often the device was told meanwhile, by whomever, to empty its cache
}

// benchPutJSON is what all kinds of putting have. Rates are medians of the rounds.
type benchPutJSON struct {
	Messages               int64   `json:"messages"` // answered PUT_OK
	NotOK                  int64   `json:"notOK"`    // answered with less
	Seconds                float64 `json:"seconds"`
	MessagesPerSecond      float64 `json:"messagesPerSecond"`
	MessagesPerSecondLeast float64 `json:"messagesPerSecondLeast"` // of the slowest round
	MessagesPerSecondMost  float64 `json:"messagesPerSecondMost"`
	BytesPerSecond         float64 `json:"bytesPerSecond"` // of log
	P50Micros              float64 `json:"p50Micros"`
	P99Micros              float64 `json:"p99Micros"`
	EndedBySize            bool    `json:"endedBySize"` // a round wrote what --size allows before its time was over
}

type benchMemcpyJSON struct {
	MemcpysPerSecond     float64 `json:"memcpysPerSecond"` // of recordBytes each
	MemcpyBytesPerSecond float64 `json:"memcpyBytesPerSecond"`
	RatioToMemcpy        float64 `json:"ratioToMemcpy"`
}

type benchPutAsyncJSON struct {
	benchPutJSON
	benchMemcpyJSON
	OnDiskBytesPerSecond float64 `json:"onDiskBytesPerSecond"` // all of it written, and then flushed, in all the time that this took
}

type benchPutSyncJSON struct {
	benchPutJSON
	FdatasyncsPerSecond    float64 `json:"fdatasyncsPerSecond"`
	FdatasyncBytes         int64   `json:"fdatasyncBytes"`
	FdatasyncP50Micros     float64 `json:"fdatasyncP50Micros"`
	FdatasyncP99Micros     float64 `json:"fdatasyncP99Micros"`
	MessagesPerFdatasync   int64   `json:"messagesPerFdatasync"`
	LimitMessagesPerSecond float64 `json:"limitMessagesPerSecond"` // the product of the two
	RatioToFdatasync       float64 `json:"ratioToFdatasync"`
}

type benchPutHAJSON struct {
	benchPutJSON
	RoundTripsPerSecond    float64 `json:"roundTripsPerSecond"`
	RoundTripBytes         int64   `json:"roundTripBytes"`
	RoundTripP50Micros     float64 `json:"roundTripP50Micros"`
	RoundTripP99Micros     float64 `json:"roundTripP99Micros"`
	MessagesPerRoundTrip   int64   `json:"messagesPerRoundTrip"`
	LimitMessagesPerSecond float64 `json:"limitMessagesPerSecond"`
	RatioToRoundTrip       float64 `json:"ratioToRoundTrip"`
}

type benchGetJSON struct {
	Messages          int64   `json:"messages"`
	Seconds           float64 `json:"seconds"`
	MessagesPerSecond float64 `json:"messagesPerSecond"`
	BytesPerSecond    float64 `json:"bytesPerSecond"`
	benchMemcpyJSON
}

type benchQueryJSON struct {
	Queries          int64   `json:"queries"`
	Seconds          float64 `json:"seconds"`
	QueriesPerSecond float64 `json:"queriesPerSecond"`
	P50Micros        float64 `json:"p50Micros"`
	P99Micros        float64 `json:"p99Micros"`
	Keys             int64   `json:"keys"` // in the index
	benchMemcpyJSON
}

type benchRecoveryJSON struct {
	Bytes                 int64   `json:"bytes"` // of log
	Messages              int64   `json:"messages"`
	Seconds               float64 `json:"seconds"` // of one recovery
	BytesPerSecond        float64 `json:"bytesPerSecond"`
	MessagesPerSecond     float64 `json:"messagesPerSecond"`
	ReadCRCBytesPerSecond float64 `json:"readCRCBytesPerSecond"`
	RatioToReadCRC        float64 `json:"ratioToReadCRC"`
}

func (b *bench) putJSON(p *puts, m measured) benchPutJSON {
	rates, all := m.rates(), m.sum()
	j := benchPutJSON{
		Messages: all.n, NotOK: p.short.Load(), Seconds: figures(all.took.Seconds()),
		MessagesPerSecond: figures(m.rate()), MessagesPerSecondLeast: figures(rates[0]), MessagesPerSecondMost: figures(rates[0]),
		BytesPerSecond: figures(m.rate() * float64(b.p.record)), P50Micros: figures(micros(p.took.quantile(0.5))), P99Micros: figures(micros(p.took.quantile(0.99))), EndedBySize: p.full,
	}
	for _, r := range rates {
		j.MessagesPerSecondLeast, j.MessagesPerSecondMost = min(j.MessagesPerSecondLeast, figures(r)), max(j.MessagesPerSecondMost, figures(r))
	}
	return j
}

func (b *bench) memcpyJSON(work, limit measured) benchMemcpyJSON {
	return benchMemcpyJSON{figures(limit.rate()), figures(limit.rate() * float64(b.p.record)), ratio(work.rate(), limit.rate())}
}

// figures is x with five figures that mean something.
func figures(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-4)
	if unit < 1 {
		n := math.Round(1 / unit)
		return math.Round(x*n) / n
	}
	return math.Round(x/unit) * unit
}

// ratio is work as a part of its limit; 0 without one.
func ratio(work, limit float64) float64 {
	if limit == 0 {
		return 0
	}
	return figures(work / limit)
}

// print is the result for somebody who is tired.
func (b *bench) print() {
	r := &b.result
	b.e.printf("Messages of %s (%s in the log), %s, %s; %s for each kind of work, medians.\n\n", size(r.BodyBytes), size(r.RecordBytes), count(r.Producers, "producer", "producers"), count(r.CPUs, "CPU", "CPUs"), b.c.Duration)
	t := b.e.table(column{"WORK", 20}, column{"RATE", -20}, column{"BYTES", -14}, column{"P50", -10}, column{"P99", -10}, column{"LIMIT", -20}, column{"RATIO", -8}, column{"OF", 0})
	memcpy := func(j benchMemcpyJSON, what string) (string, string, string) {
		return perSecond(j.MemcpysPerSecond, "/s"), share(j.RatioToMemcpy), what + ", " + bytesPerSecond(j.MemcpyBytesPerSecond)
	}
	put := func(name string, j benchPutJSON, limit, ratio, of string) {
		t.row(name, perSecond(j.MessagesPerSecond, " msg/s"), bytesPerSecond(j.BytesPerSecond), inMicros(j.P50Micros), inMicros(j.P99Micros), limit, ratio, of)
	}
	if j := r.PutAsync; j != nil {
		limit, ratio, of := memcpy(j.benchMemcpyJSON, "memcpy of as many bytes")
		put("put async", j.benchPutJSON, limit, ratio, of)
	}
	if j := r.PutSync; j != nil {
		put("put sync", j.benchPutJSON, perSecond(j.LimitMessagesPerSecond, "/s"), share(j.RatioToFdatasync), fmt.Sprintf("fdatasync of %s, %s", count(j.MessagesPerFdatasync, "message", "messages"), inMicros(j.FdatasyncP50Micros)))
	}
	if j := r.PutHA; j != nil {
		put("put with a slave", j.benchPutJSON, perSecond(j.LimitMessagesPerSecond, "/s"), share(j.RatioToRoundTrip), fmt.Sprintf("loopback round trip of %s, %s", count(j.MessagesPerRoundTrip, "message", "messages"), inMicros(j.RoundTripP50Micros)))
	}
	if j := r.Get; j != nil {
		limit, ratio, of := memcpy(j.benchMemcpyJSON, "memcpy of as many bytes")
		t.row("get, 32 a call", perSecond(j.MessagesPerSecond, " msg/s"), bytesPerSecond(j.BytesPerSecond), "-", "-", limit, ratio, of)
	}
	if j := r.Query; j != nil {
		limit, ratio, of := memcpy(j.benchMemcpyJSON, "memcpy from random places")
		t.row("query by key", perSecond(j.QueriesPerSecond, " /s"), "-", inMicros(j.P50Micros), inMicros(j.P99Micros), limit, ratio, of)
	}
	if j := r.Recovery; j != nil {
		t.row("recovery", perSecond(j.MessagesPerSecond, " msg/s"), bytesPerSecond(j.BytesPerSecond), "-", "-", bytesPerSecond(j.ReadCRCBytesPerSecond), share(j.RatioToReadCRC), "reading and summing the same log")
	}
	b.e.printf("\n%s", b.meaning())
	b.e.printf("\nThe disk: %s.\n%s One fdatasync in a hundred takes more than %s.\n", mountedAt(b.dir), r.Disk.Says, inMicros(r.Disk.FdatasyncP99Micros))
	if n := r.unrest(); n >= 3 {
		b.e.printf("\nThe slowest and the fastest round of the same puts differ by a factor of %.0f: something else is at work on this machine or disk. Run it again when that is over.\n", n)
	}
}

// unrest is how many times faster the fastest round was than the slowest one, of the puts of which that differed most.
func (r *benchJSON) unrest() (factor float64) {
	var all []benchPutJSON
	if r.PutAsync != nil {
		all = append(all, r.PutAsync.benchPutJSON)
	}
	if r.PutSync != nil {
		all = append(all, r.PutSync.benchPutJSON)
	}
	if r.PutHA != nil {
		all = append(all, r.PutHA.benchPutJSON)
	}
	for _, p := range all {
		factor = max(factor, p.MessagesPerSecondMost/max(p.MessagesPerSecondLeast, 1))
	}
	return factor
}

// meaning says what each ratio means, a line each.
func (b *bench) meaning() string {
	r, text := &b.result, "A ratio of 1 is the machine's limit, measured in turns with the work.\n"
	line := func(format string, args ...any) { text += fmt.Sprintf("  "+format+"\n", args...) }
	if j := r.PutAsync; j != nil {
		line("put async: %s of what the CPUs could copy; the rest is encoding, checksum, page faults, dispatch and write-back. All of it was on disk at %s: no more than that can last.", percent(j.RatioToMemcpy), bytesPerSecond(j.OnDiskBytesPerSecond))
		if j.EndedBySize {
			line("           A round ended early, since --size %d was full.", b.c.Size)
		}
		b.notOK(line, "put async", j.NotOK)
	}
	if j := r.PutSync; j != nil {
		alone := ""
		if r.RecordBytes <= 4096 { // the disk was asked with as much
			alone = fmt.Sprintf(" One producer alone gets at most %s.", perSecond(1e6/max(r.Disk.FdatasyncP50Micros, 0.001), " msg/s"))
		}
		line("put sync: %s of one fdatasync for every %s, never waiting. More producers share an fdatasync.%s", percent(j.RatioToFdatasync), count(j.MessagesPerFdatasync, "message", "messages"), alone)
		b.notOK(line, "put sync", j.NotOK)
	}
	if j := r.PutHA; j != nil {
		line("put with a slave: %s of one round trip for every %s. Over a real network its round trip is the limit: replace %s by what ping says.", percent(j.RatioToRoundTrip), count(j.MessagesPerRoundTrip, "message", "messages"), inMicros(j.RoundTripP50Micros))
		b.notOK(line, "put with a slave", j.NotOK)
	}
	if j := r.Get; j != nil {
		line("get: %s of only copying the bytes, from messages that are in memory; what is not is read at the disk's speed.", percent(j.RatioToMemcpy))
	}
	if j := r.Query; j != nil {
		line("query: a query costs as much as %s; %s in the index.", count(max(1, int64(1/max(j.RatioToMemcpy, 1e-9))), "copy from a random place of memory", "copies from random places of memory"), count(j.Keys, "key", "keys"))
	}
	if j := r.Recovery; j != nil {
		line("recovery: %s of reading and checking with one CPU; a GiB of log that no checkpoint covers takes %s, from memory.", percent(j.RatioToReadCRC), (time.Duration(float64(1<<30) / max(j.BytesPerSecond, 1) * float64(time.Second))).Round(10*time.Millisecond))
	}
	return text
}

func (b *bench) notOK(line func(string, ...any), what string, n int64) {
	if n > 0 {
		line("%s: %s answered with less than PUT_OK, and not counted: the disk or the slave was too slow", what, count(n, "put was", "puts were"))
	}
}

func perSecond(x float64, unit string) string {
	if x < 100 {
		return fmt.Sprintf("%.1f%s", x, unit)
	}
	return humanize.Comma(int64(math.Round(x))) + unit
}

func bytesPerSecond(x float64) string { return size(int64(x)) + "/s" }

func share(x float64) string {
	if x < 0.01 {
		return fmt.Sprintf("%.5f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func percent(x float64) string {
	if x < 0.01 {
		return fmt.Sprintf("%.2f %%", 100*x)
	}
	return fmt.Sprintf("%.0f %%", 100*x)
}

func inMicros(us float64) string {
	d := time.Duration(us * 1000)
	switch {
	case d < 10*time.Microsecond:
		return d.Round(100 * time.Nanosecond).String()
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
