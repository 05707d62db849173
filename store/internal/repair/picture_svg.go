package repair

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The picture's measures, in its own pixels.
const (
	picWidth  = 1200.0
	picMargin = 32.0
	picLeft   = 248.0 // of the plots; queue names stand before
	picRight  = 1016.0
	picQueues = 40 // rows of queues
	picSlices = 12 // of the log, in the band that leads to the time
	tailWidth = 34.0
)

// style colours the picture by classes, so that one file is right on light and on dark. Colours alone never carry a meaning: each has a word in the legend, and a title.
const style = `
.mq{--bg:#fbfbf9;--card:#ffffff;--ink:#1b2733;--soft:#5c6975;--line:#dde2e7;--live:#2f74c0;--aside:#8a63c9;--waiting:#e09f1f;--dead:#aab4be;--damaged:#d1344b;--blank:#e8ecef;--band:#2f74c0;--good:#2b8a57}
@media (prefers-color-scheme:dark){.mq{--bg:#0f1419;--card:#161d24;--ink:#e4eaf0;--soft:#93a1ae;--line:#2b3640;--live:#5ba3ee;--aside:#ae8df0;--waiting:#efb949;--dead:#586675;--damaged:#ff6677;--blank:#222b34;--band:#5ba3ee;--good:#5cc98d}}
.mq text{font-family:ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Helvetica Neue",sans-serif;font-size:12px;fill:var(--ink)}
.mq .bg{fill:var(--bg)}.mq .card{fill:var(--card);stroke:var(--line)}
.mq .h1{font-size:22px;font-weight:650}.mq .h2{font-size:14px;font-weight:650}
.mq .soft,.mq .tick{fill:var(--soft)}.mq .tick{font-size:11px;font-variant-numeric:tabular-nums}.mq .num{font-variant-numeric:tabular-nums}
.mq .big{font-size:17px;font-weight:600;font-variant-numeric:tabular-nums}
.mq .cover{fill:var(--card)}.mq .torn{stroke:var(--damaged);stroke-width:1.5;stroke-dasharray:3 3;fill:none}.mq .rule{stroke:var(--line);fill:none}.mq .edge{stroke:var(--soft);fill:none}
.mq .live{fill:var(--live)}.mq .aside{fill:var(--aside)}.mq .waiting{fill:var(--waiting)}.mq .dead{fill:var(--dead)}.mq .damaged{fill:var(--damaged)}.mq .blank{fill:var(--blank)}
.mq .band{fill:var(--band)}.mq .track{fill:var(--blank)}.mq .bad{fill:var(--damaged)}.mq .warn{fill:var(--waiting)}.mq .good{fill:var(--good)}
.mq .seg{fill:var(--card);stroke:var(--soft)}.mq .free{fill:url(#mq-free);stroke:var(--soft);stroke-dasharray:3 3}.mq .hatch{stroke:var(--line)}
.mq .onmark{fill:var(--bg);font-size:9px;font-weight:700}
`

var classNames = [classes]struct{ css, word, what string }{
	classLive:    {"live", "live", "records that a queue gives"},
	classAside:   {"aside", "in no queue", "prepared and rolled back messages"},
	classWaiting: {"waiting", "not in its queue yet", "records behind their queue's end"},
	classDead:    {"dead", "dead", "records that their queue has let go of"},
	classDamaged: {"damaged", "damaged", "bytes without a readable record"},
	classBlank:   {"blank", "blank", "the unused rest of a segment"},
}

// drawing is an SVG that is being written.
type drawing struct {
	b bytes.Buffer
	p *Picture
	y float64

	end      int64   // bytes of files up to the log's end
	hole     float64 // width of a missing range
	logRight float64 // where the log's end is drawn
	free     int64   // bytes behind it
	began    int     // columns in use
}

// SVG writes the picture as one SVG file: no scripts, nothing from elsewhere, and names from disk only as text.
func (p *Picture) SVG(w io.Writer) error {
	d := p.draw()
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" class="mq" width="%g" height="%g" viewBox="0 0 %[1]g %[2]g" role="img" aria-label="%s">`+"\n<style>%s</style>\n%s</svg>\n",
		picWidth, d.y, escaped("message store "+p.Name, 200), style, d.b.Bytes())
	return err
}

func (p *Picture) draw() *drawing {
	d := &drawing{p: p}
	d.scale()
	d.y = 26
	d.header()
	d.theLog()
	if p.times.first > 0 && p.Records > 0 {
		d.theTime()
	}
	if len(p.Queues) > 0 {
		d.theQueues()
	}
	d.theFindings()
	d.y += 8
	body := d.b
	d.b = bytes.Buffer{}
	d.f(`<defs><pattern id="mq-free" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="6" stroke-width="2"/></pattern></defs>`)
	d.f(`<rect class="bg" width="%g" height="%g"/>`, picWidth, d.y)
	d.b.Write(body.Bytes())
	return d
}

// f writes an element. Arguments that are strings come from escaped.
func (d *drawing) f(format string, args ...any) {
	fmt.Fprintf(&d.b, format+"\n", args...)
}

// text writes s at x, y.
func (d *drawing) text(x, y float64, class, anchor, s string) {
	if anchor != "" {
		anchor = ` text-anchor="` + anchor + `"`
	}
	d.f(`<text x="%.1f" y="%.1f" class="%s"%s>%s</text>`, x, y, class, anchor, escaped(s, 400))
}

// title is what a pointer that rests on the element is told.
func title(format string, args ...any) string {
	return "<title>" + escaped(fmt.Sprintf(format, args...), 600) + "</title>"
}

// escaped is s as text of XML, at most n characters, with everything that is not to be seen written as an escape.
func escaped(s string, n int) string {
	var b strings.Builder
	count := 0
	for len(s) > 0 {
		if count++; count >= n && len(s) > 1 {
			b.WriteString("…")
			break
		}
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsPrint(r):
			b.WriteString(s[:size])
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[size:]
	}
	var out bytes.Buffer
	if err := xml.EscapeText(&out, []byte(b.String())); err != nil {
		return ""
	}
	return out.String()
}

// scale decides where the log's bytes go.
func (d *drawing) scale() {
	p := d.p
	d.end = p.axis.used(p.LogEnd)
	total := p.axis.used(lastEndOf(p.Segments))
	if p.Records == 0 {
		d.end = 0
	}
	d.free = total - d.end
	d.logRight = picRight
	if d.free > 0 && len(p.Segments) > 0 {
		d.logRight -= tailWidth
	}
	if n := p.axis.gaps(p.LogEnd); n > 0 {
		d.hole = math.Min(12, 160/float64(n))
		d.logRight -= d.hole * float64(n)
	}
	if d.end > 0 {
		d.began = int((d.end + p.columns.width - 1) / p.columns.width)
	}
}

func lastEndOf(segs []Segment) int64 {
	if len(segs) == 0 {
		return 0
	}
	return segs[len(segs)-1].End()
}

// x is where a physical offset is drawn.
func (d *drawing) x(phyOffset int64) float64 {
	return d.xUsed(d.p.axis.used(phyOffset)) + d.hole*float64(d.p.axis.gaps(phyOffset))
}

// xUsed is where so many bytes of files end, not counting the missing ranges.
func (d *drawing) xUsed(used int64) float64 {
	if d.end == 0 {
		return picLeft
	}
	return picLeft + (d.logRight-picLeft)*math.Min(1, float64(used)/float64(d.end))
}

// xColumn is where column i begins, with the missing ranges before it.
func (d *drawing) xColumn(i int) float64 {
	u := min(int64(i)*d.p.columns.width, d.end)
	n := 0
	if k := d.segmentAt(u); k >= 0 {
		n = d.p.axis.holes[k]
	}
	return d.xUsed(u) + d.hole*float64(n)
}

// segmentAt is the segment in which the byte of files number u lies.
func (d *drawing) segmentAt(u int64) int {
	a := &d.p.axis
	k := len(a.before) - 1
	for lo, hi := 0, len(a.before); lo < hi; {
		if mid := (lo + hi) / 2; a.before[mid] > u {
			hi = mid
		} else {
			k, lo = mid, mid+1
		}
	}
	return k
}

// rightEnd is where the log's end is drawn.
func (d *drawing) rightEnd() float64 {
	return d.logRight + d.hole*float64(d.p.axis.gaps(d.p.LogEnd))
}

func (d *drawing) header() {
	p := d.p
	d.text(picMargin, d.y+16, "h1", "", cut(p.Name, 60))
	state, class := "closed cleanly", "good"
	switch {
	case p.Live:
		state = "in use by a running process: as it was at that moment"
	case !p.Clean:
		state, class = "not closed cleanly: the next opening recovers", "warn"
	}
	d.f(`<circle cx="%g" cy="%g" r="5" class="%s"/>`, picMargin+5, d.y+38, class)
	d.text(picMargin+18, d.y+42, "soft", "", state)
	at := picWidth - picMargin
	findings, badge := "no findings", "good"
	if p.Total > 0 {
		findings, badge = counted(p.Total, "finding", "findings"), "bad"
	}
	d.text(at-16, d.y+16, "big", "end", findings)
	d.f(`<circle cx="%g" cy="%g" r="5" class="%s"/>`, at-5, d.y+11, badge)
	d.text(at, d.y+42, "soft", "end", fmt.Sprintf("%s · %s of log · %s in %s · %s", counted(p.Records, "record", "records"), bytesText(d.end), counted(int64(len(p.Queues)), "queue", "queues"),
		counted(int64(p.Topics), "topic", "topics"), counted(int64(len(p.Segments)), "segment", "segments")))
	d.y += 66
}

// panel begins a card of a height and returns where its content starts.
func (d *drawing) panel(height float64, head string) (top float64) {
	d.f(`<rect class="card" x="%g" y="%g" width="%g" height="%g" rx="10"/>`, picMargin-12, d.y, picWidth-2*picMargin+24, height)
	d.text(picMargin+4, d.y+24, "h2", "", head)
	top = d.y
	d.y += height + 14
	return top
}

func (d *drawing) theLog() {
	p := d.p
	if len(p.Segments) == 0 {
		top := d.panel(72, "The log")
		d.text(picMargin+4, top+50, "soft", "", "It is empty: there is no file.")
		return
	}
	top := d.panel(216, "The log")
	d.text(picLeft, top+24, "soft", "", "left to right by physical offset; what lies where")
	y := top + 62.0
	d.composition(y+22, 84)
	d.segments(y)
	d.marks(y-4, y+106)
	d.offsets(y + 106)
	d.legend(picLeft, y+142)
	d.text(picMargin+4, y+12, "soft", "", "segments")
	d.text(picMargin+4, y+58, "soft", "", "what the bytes are")
	if p.Total > 0 {
		d.text(picMargin+4, y-10, "soft", "", "findings")
	}
}

// segments draws the files, each where there is room for it.
func (d *drawing) segments(y float64) {
	p := d.p
	right := d.rightEnd()
	shown := 0
	for i, s := range p.Segments {
		if s.Start >= p.LogEnd && p.LogEnd > 0 || p.Records == 0 {
			break
		}
		x0, x1 := d.x(s.Start), d.x(min(s.End(), p.LogEnd)-1)
		if s.End() > p.LogEnd {
			x1 = right
		}
		if shown++; len(p.Segments) > 192 {
			continue
		}
		d.f(`<rect class="seg" x="%.1f" y="%g" width="%.1f" height="16" rx="3">%s</rect>`, x0, y, math.Max(1, x1-x0-1), title("segment %0*d: %s, physical offsets %d to %d", fileNameDigits, s.Start, bytesText(s.Size), s.Start, s.End()))
		if i > 0 && p.Segments[i-1].End() != s.Start {
			d.f(`<g>%s<rect class="cover" x="%.1f" y="%g" width="%.1f" height="86"/><path class="torn" d="M%.1f %gv106"/></g>`, title("physical offsets %d to %d are missing", p.Segments[i-1].End(), s.Start), x0-d.hole, y+21, d.hole, x0-d.hole/2-0.5, y)
		}
		if name := strconv.FormatInt(s.Start, 10); x1-x0 > float64(len(name))*6.6+10 {
			d.text((x0+x1)/2, y+12, "tick", "middle", name)
		}
	}
	if len(p.Segments) > 192 && shown > 0 {
		d.f(`<rect class="seg" x="%g" y="%g" width="%.1f" height="16" rx="3"/>`, picLeft, y, right-picLeft)
		d.text((picLeft+right)/2, y+12, "tick", "middle", fmt.Sprintf("%s of %s", counted(int64(len(p.Segments)), "segment", "segments"), bytesText(p.Segments[0].Size)))
	}
	if d.free > 0 {
		x0, x1 := right, picRight
		if p.Records == 0 {
			x0 = picLeft
		}
		class, what := "free", fmt.Sprintf("%s behind the log's end, not written yet", bytesText(d.free))
		if p.Torn {
			what = fmt.Sprintf("%s behind the log's end, and in them bytes that are no whole record", bytesText(d.free))
		}
		d.f(`<rect class="%s" x="%.1f" y="%g" width="%.1f" height="106" rx="3">%s</rect>`, class, x0+1, y, math.Max(1, x1-x0-1), title("%s", what))
		if p.Torn {
			d.f(`<rect class="damaged" x="%.1f" y="%g" width="4" height="84">%s</rect>`, x0+1, y+22, title("a torn tail: something that is no whole record follows the log's end, %d", p.LogEnd))
		}
		if p.Records == 0 {
			d.text((x0+x1)/2, y+58, "soft", "middle", "no record: "+what)
			return
		}
		d.text(picRight+8, y+50, "tick", "", "free "+bytesText(d.free))
	}
}

// composition draws what the bytes of each column are.
func (d *drawing) composition(y, height float64) {
	c := &d.p.columns
	var sum [columnCount]float64
	if d.began == 0 {
		return
	}
	for k := range classes {
		var path strings.Builder
		total := 0.0
		for i := range d.began {
			x0, x1 := d.xColumn(i), d.xColumn(i+1)
			if x1 < x0 || i+1 == d.began {
				x1 = d.rightEnd()
			}
			total += c.bytes[k][i]
			width := float64(min(int64(i+1)*c.width, d.end) - int64(i)*c.width)
			h := height * c.bytes[k][i] / width
			if h > 0 && h < 1.5 && k == classDamaged { // what matters is to be seen
				h = 1.5
			}
			if h > 0 {
				fmt.Fprintf(&path, "M%.1f %.1fH%.1fV%.1fH%.1fz", x0, y+height-sum[i], x1+0.15, y+height-sum[i]-h, x0)
			}
			sum[i] += h
		}
		if path.Len() > 0 {
			d.f(`<path class="%s" d="%s">%s</path>`, classNames[k].css, path.String(), title("%s: %s (%s)", classNames[k].word, bytesText(int64(total)), classNames[k].what))
		}
	}
}

// offsets labels the log's axis.
func (d *drawing) offsets(y float64) {
	p := d.p
	if p.Records == 0 {
		return
	}
	last := -1e9
	label := func(off int64, x float64, anchor string) {
		d.f(`<line class="edge" x1="%.1f" y1="%g" x2="%[1]g" y2="%g"/>`, math.Round(x*10)/10, y, y+5)
		d.text(x, y+17, "tick", anchor, strconv.FormatInt(off, 10))
		last = x
	}
	right := d.rightEnd()
	label(p.Segments[0].Start, picLeft, "start")
	step := max(1, len(p.Segments)/6)
	for i := step; i < len(p.Segments); i += step {
		s := p.Segments[i]
		if x := d.x(s.Start); s.Start < p.LogEnd && x-last > 130 && right-x > 130 {
			label(s.Start, x, "middle")
		}
	}
	if right-last > 60 {
		label(p.LogEnd, right, "end")
	}
}

// legend names the classes that there are, with their share.
func (d *drawing) legend(x, y float64) {
	for k, n := range classNames {
		total := 0.0
		for _, b := range d.p.columns.bytes[k] {
			total += b
		}
		if total == 0 {
			continue
		}
		label := fmt.Sprintf("%s %s", n.word, bytesText(int64(total)))
		d.f(`<rect class="%s" x="%.1f" y="%g" width="11" height="11" rx="2">%s</rect>`, n.css, x, y-10, title("%s", n.what))
		d.text(x+17, y, "soft num", "", label)
		x += 17 + float64(utf8.RuneCountInString(label))*6.6 + 20
	}
}

// marks draws the findings where they are.
func (d *drawing) marks(y, bottom float64) {
	type cluster struct {
		n     int
		worst bool
		lines []string
		x     float64
	}
	const grain = 14.0
	clusters := map[int]*cluster{}
	for _, f := range d.p.Findings {
		if f.PhyOffset < 0 || len(d.p.Segments) == 0 {
			continue
		}
		x := math.Max(picLeft, math.Min(d.x(f.PhyOffset), picRight))
		if f.PhyOffset >= d.p.LogEnd {
			x = math.Min(d.rightEnd()+3, picRight)
		}
		k := int(x / grain)
		c := clusters[k]
		if c == nil {
			c = &cluster{x: x}
			clusters[k] = c
		}
		c.n++
		c.worst = c.worst || grave(f)
		if len(c.lines) < 6 {
			c.lines = append(c.lines, fmt.Sprintf("%s at %d: %s", f.Kind, f.PhyOffset, f.Detail))
		}
	}
	for k := int(math.Floor(picLeft / grain)); k <= int(math.Ceil(picRight/grain)); k++ {
		c := clusters[k]
		if c == nil {
			continue
		}
		class := "warn"
		if c.worst {
			class = "bad"
		}
		if c.n > len(c.lines) {
			c.lines = append(c.lines, fmt.Sprintf("and %d more", c.n-len(c.lines)))
		}
		t := title("%s", strings.Join(c.lines, " · "))
		d.f(`<line class="edge" x1="%.1f" y1="%.1f" x2="%[1]g" y2="%.1f" stroke-opacity=".35"/>`, math.Round(c.x*10)/10, y, bottom)
		if c.n == 1 {
			d.f(`<path class="%s" d="M%.1f %.1fl-5.5 -10h11z">%s</path>`, class, c.x, y, t)
			continue
		}
		label := strconv.Itoa(c.n)
		w := float64(len(label))*5.6 + 9
		d.f(`<path class="%s" d="M%.1f %.1fl-4 -4h%.1fa3 3 0 0 1 -3 -3v-6a3 3 0 0 1 3 -3h%.1fa3 3 0 0 1 3 3v6a3 3 0 0 1 -3 3h%.1fz">%s</path>`, class, c.x, y, -(w/2 - 4), w, -(w/2 - 4), t)
		d.text(c.x, y-6.8, "onmark", "middle", label)
	}
}

// grave is whether a finding means that messages are lost or wrong, and not only what can be made again from the log.
func grave(f Finding) bool {
	switch f.Kind {
	case BadCRC, BadMagic, BadSize, WrongPhyOffset, MissingSegment, WrongLength, Unreadable:
		return true
	}
	return f.Mend == MendSalvage
}

// theTime draws how the log's bytes spread over time.
func (d *drawing) theTime() {
	p := d.p
	t := &p.times
	top := d.panel(248, "Where the time goes")
	d.text(picLeft, top+24, "soft", "", fmt.Sprintf("each band is 1/%d of the log, and falls on the time it was stored in", picSlices))
	logY, timeY, base := top+40, top+112, top+206.0
	left, right := picLeft, picRight
	span := math.Max(1, float64(t.last-t.first))
	tx := func(ms int64) float64 { return left + (right-left)*float64(ms-t.first)/span }
	if t.last == t.first {
		tx = func(int64) float64 { return (left + right) / 2 }
	}
	for _, b := range d.slices() {
		x0, x1 := tx(b.from), tx(b.to)
		if x1-x0 < 1 && x1 >= x0 {
			x1 = x0 + 1
		}
		mid := (logY + timeY) / 2
		path := fmt.Sprintf("M%.1f %.1fH%.1fC%.1f %.1f %.1f %.1f %.1f %.1fH%.1fC%.1f %.1f %.1f %.1f %.1f %.1fz",
			b.x0, logY, b.x1, b.x1, mid, x1, mid, x1, timeY, x0, x0, mid, b.x0, mid, b.x0, logY)
		d.f(`<path class="band" fill-opacity="%.2f" d="%s">%s</path>`, b.shade, path, title("%s of the log, stored from %s to %s", bytesText(b.bytes), when(b.from), when(b.to)))
	}
	d.text(picMargin+4, logY+10, "soft", "", "by offset")
	d.text(picMargin+4, timeY, "soft", "", "by store time")
	most := 0.0
	for _, b := range t.bytes {
		most = math.Max(most, b)
	}
	d.f(`<path class="rule" d="M%g %gH%g"/>`, left, base, right)
	var path strings.Builder
	for i, b := range t.bytes {
		from, to := t.begin+int64(i)*t.width, t.begin+int64(i+1)*t.width
		if b == 0 {
			continue
		}
		x0, x1 := math.Max(left, tx(max(from, t.first))), math.Min(right, tx(min(to, t.last)))
		if t.last == t.first {
			x0, x1 = tx(0)-2, tx(0)+2
		}
		h := math.Max(1, 78*b/most)
		fmt.Fprintf(&path, "M%.1f %gH%.1fV%.1fH%.1fz", x0, base, math.Max(x0+1, x1-0.6), base-h, x0)
	}
	d.f(`<path class="live" d="%s">%s</path>`, path.String(), title("bytes stored in each %s", (time.Duration(t.width)*time.Millisecond).String()))
	rate := most / (float64(t.width) / 1000)
	d.text(picRight+8, base-70, "tick", "", "peak")
	d.text(picRight+8, base-55, "tick", "", bytesText(int64(rate))+"/s")
	d.text(picRight+8, base-40, "tick", "", "in "+shortDuration(time.Duration(t.width)*time.Millisecond))
	for _, k := range ticks(t.first, t.last) {
		x := tx(k.ms)
		d.f(`<line class="edge" x1="%g" y1="%g" x2="%[1]g" y2="%g"/>`, round1(x), base, base+5)
		anchor := "middle"
		if x < left+36 {
			anchor = "start"
		} else if x > right-36 {
			anchor = "end"
		}
		d.text(x, base+18, "tick", anchor, k.label)
	}
	zone, _ := time.UnixMilli(t.first).Zone()
	note := fmt.Sprintf("%s to %s (%s, %s)", when(t.first), when(t.last), zone, shortDuration(time.Duration(t.last-t.first)*time.Millisecond))
	if t.odd > 0 {
		note += fmt.Sprintf("; %s with an impossible time left out", counted(t.odd, "record", "records"))
	}
	d.text(picWidth-picMargin-2, top+24, "soft", "end", note)
}

func round1(x float64) float64 { return math.Round(x*10) / 10 }

// slice is a part of the log and when it was stored.
type slice struct {
	x0, x1   float64
	from, to int64
	bytes    int64
	shade    float64
}

// slices cuts the log into parts of equal length.
func (d *drawing) slices() (out []slice) {
	n := min(picSlices, d.began)
	next := func(i int) int64 { // the first store time at or behind a column
		for ; i < d.began; i++ {
			if t := d.p.columns.first[i]; t > 0 {
				return t
			}
		}
		return d.p.times.last
	}
	for i := range n {
		a, b := i*d.began/n, (i+1)*d.began/n
		s := slice{x0: d.xColumn(a), x1: d.xColumn(b), from: next(a), to: next(b), shade: 0.22 + 0.28*float64(i%2), bytes: min(int64(b)*d.p.columns.width, d.end) - int64(a)*d.p.columns.width}
		if i == n-1 {
			s.x1, s.to = d.rightEnd(), d.p.times.last
		}
		out = append(out, s)
	}
	return out
}

// theQueues draws each queue under the part of the log that it has records in.
func (d *drawing) theQueues() {
	p := d.p
	rows := min(len(p.Queues), picQueues)
	more := len(p.Queues) - rows
	const rowHeight = 19.0
	height := 66 + float64(rows)*rowHeight + 10
	if more > 0 {
		height += 26
	}
	top := d.panel(height, "Queues")
	what := "where in the log their records lie; the stronger, the more"
	if more > 0 {
		what = fmt.Sprintf("the %d that lack units or are largest; ", rows) + what
	}
	d.text(picLeft, top+24, "soft", "", what)
	d.text(picRight+8, top+46, "tick", "", "behind the end")
	d.text(picWidth-picMargin-2, top+46, "tick", "end", "records")
	d.text(picLeft-10, top+46, "tick", "end", "topic / queue")
	byQueue := map[QueueName][]Finding{}
	for _, f := range p.Findings {
		if f.QueueID >= 0 {
			n := QueueName{f.Topic, f.QueueID}
			byQueue[n] = append(byQueue[n], f)
		}
	}
	y := top + 56
	right := d.rightEnd()
	d.f(`<path class="edge" stroke-dasharray="2 3" d="M%.1f %.1fV%.1f"/>`, right, y, y+float64(rows)*rowHeight)
	for i := range rows {
		q := &p.Queues[i]
		mid := y + float64(i)*rowHeight + rowHeight/2
		d.text(picLeft-10, mid+4, "", "end", cut(q.Topic, 26)+" / "+strconv.Itoa(int(q.QueueID)))
		d.f(`<rect class="track" x="%g" y="%.1f" width="%.1f" height="9" rx="2" fill-opacity=".6"/>`, picLeft, mid-4.5, right-picLeft)
		if q.FirstPhy >= 0 {
			x0, x1 := d.x(q.FirstPhy), d.x(q.EndPhy-1)
			d.density(q, mid-4.5, x0, x1)
			lag := p.axis.used(p.LogEnd) - p.axis.used(q.EndPhy)
			d.f(`<rect x="%.1f" y="%.1f" width="%.1f" height="9" fill="none" stroke="var(--live)" stroke-opacity=".55" rx="1">%s</rect>`, x0, mid-4.5, math.Max(1.5, x1-x0),
				title("%s, queue %d: queue offsets %d to %d, %s, physical offsets %d to %d", q.Topic, q.QueueID, q.Min, q.Max, bytesText(q.Bytes), q.FirstPhy, q.EndPhy))
			label := "at the end"
			if lag > 0 {
				label = bytesText(lag)
			}
			d.text(picRight+8, mid+4, "tick", "", label)
		} else {
			d.text(picRight+8, mid+4, "tick", "", "no record left")
		}
		d.text(picWidth-picMargin-2, mid+4, "tick", "end", grouped(q.Records))
		if q.Waiting > 0 {
			d.f(`<circle class="waiting" cx="%.1f" cy="%.1f" r="4">%s</circle>`, right+8, mid, title("%s not in the queue", counted(q.Waiting, "record", "records")))
		}
		if fs := byQueue[q.QueueName]; len(fs) > 0 {
			var lines []string
			class := "warn"
			for k, f := range fs {
				if grave(f) {
					class = "bad"
				}
				if k < 6 {
					lines = append(lines, fmt.Sprintf("%s: %s", f.Kind, f.Detail))
				}
			}
			d.f(`<path class="%s" d="M%.1f %.1fl-4.5 8h9z">%s</path>`, class, picMargin-1, mid-4.5, title("%d: %s", len(fs), strings.Join(lines, " · ")))
		}
	}
	if more > 0 {
		var records, size, waiting int64
		farthest, lag := -1, int64(-1)
		for i := rows; i < len(p.Queues); i++ {
			q := &p.Queues[i]
			records, size, waiting = records+q.Records, size+q.Bytes, waiting+q.Waiting
			if l := p.axis.used(p.LogEnd) - p.axis.used(q.EndPhy); q.FirstPhy >= 0 && l > lag {
				farthest, lag = i, l
			}
		}
		s := fmt.Sprintf("and %s: %s, %s", counted(int64(more), "more queue", "more queues"), counted(records, "record", "records"), bytesText(size))
		if farthest >= 0 {
			q := &p.Queues[farthest]
			s += fmt.Sprintf("; the one farthest behind the end: %s / %d, %s", cut(q.Topic, 40), q.QueueID, bytesText(lag))
		}
		d.text(picLeft, y+float64(rows)*rowHeight+22, "soft", "", s)
	}
}

// density shades where a queue's records lie.
func (d *drawing) density(q *PictureQueue, y, x0, x1 float64) {
	most := uint32(0)
	for _, n := range q.dense {
		most = max(most, n)
	}
	if most == 0 {
		d.f(`<rect class="live" fill-opacity=".5" x="%.1f" y="%.1f" width="%.1f" height="9"/>`, x0, y, math.Max(1.5, x1-x0))
		return
	}
	const per = columnCount / denseCount
	for i, n := range q.dense {
		if n == 0 {
			continue
		}
		a := math.Max(x0, d.xColumn(min(i*per, d.began)))
		b := math.Min(x1, d.xColumn(min((i+1)*per, d.began)))
		d.f(`<rect class="live" fill-opacity="%.2f" x="%.1f" y="%.1f" width="%.1f" height="9"/>`, 0.25+0.7*float64(n)/float64(most), a, y, math.Max(1.5, b-a+0.2))
	}
}

// theFindings lists what is wrong, by kind.
func (d *drawing) theFindings() {
	p := d.p
	if p.Total == 0 {
		top := d.panel(40, "Findings")
		d.text(picLeft, top+24, "soft", "", "none: every record, unit and index entry is where it must be")
		return
	}
	type kind struct {
		n     int64
		first Finding
	}
	var rows []kind
	for _, k := range Kinds {
		if n := p.Counts[k]; n > 0 {
			for _, f := range p.Findings {
				if f.Kind == k {
					rows = append(rows, kind{n, f})
					break
				}
			}
		}
	}
	top := d.panel(48+float64(len(rows))*40+8, "Findings")
	d.text(picLeft, top+24, "soft", "", "by kind, each with the first one; mqstore verify lists them all")
	y := top + 56
	for _, r := range rows {
		class, mend := "warn", "mend by hand"
		if grave(r.first) {
			class = "bad"
		}
		if r.first.Mend != "" {
			mend = "mqstore " + r.first.Mend
		}
		d.f(`<path class="%s" d="M%g %.1fl-5.5 10h11z"/>`, class, picMargin+9, y-9)
		d.text(picMargin+24, y, "", "", string(r.first.Kind))
		d.text(picLeft-20, y, "num", "end", grouped(r.n))
		where := r.first.File
		if r.first.PhyOffset >= 0 {
			where = fmt.Sprintf("at physical offset %d, %s", r.first.PhyOffset, r.first.File)
		} else if r.first.QueueID >= 0 {
			where = fmt.Sprintf("%s / %d", r.first.Topic, r.first.QueueID)
		}
		d.text(picLeft, y, "", "", cut(where, 90))
		d.text(picWidth-picMargin-2, y, "soft", "end", mend)
		d.text(picLeft, y+16, "soft", "", cut(r.first.Detail, 140))
		y += 40
	}
}

// tick is a labelled time.
type tick struct {
	ms    int64
	label string
}

// ticks are a few round times from first to last.
func ticks(first, last int64) (out []tick) {
	steps := []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond,
		500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
		6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 90 * 24 * time.Hour, 365 * 24 * time.Hour, 5 * 365 * 24 * time.Hour, 20 * 365 * 24 * time.Hour}
	step := steps[len(steps)-1]
	for _, s := range steps {
		if time.Duration(last-first)*time.Millisecond/s <= 7 {
			step = s
			break
		}
	}
	layout := "2006-01-02"
	switch {
	case step < time.Second:
		layout = "15:04:05.000"
	case step < time.Minute:
		layout = "15:04:05"
	case step < 24*time.Hour:
		layout = "01-02 15:04"
	}
	_, zone := time.UnixMilli(first).Zone()
	ms, shift := step.Milliseconds(), int64(zone)*1000
	for at := (first+shift+ms-1)/ms*ms - shift; at <= last; at += ms {
		out = append(out, tick{at, time.UnixMilli(at).Format(layout)})
	}
	if len(out) == 0 {
		out = []tick{{first, time.UnixMilli(first).Format(layout)}}
	}
	return out
}

func when(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05.000") }

// shortDuration is 3 days, 2 h or 15 ms.
func shortDuration(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.1f h", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.1f min", d.Minutes())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n-1]) + "…"
}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

// grouped is 1,234,567.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// bytesText is 1.2 GiB.
func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
