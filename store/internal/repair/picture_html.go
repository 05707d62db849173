package repair

import (
	"fmt"
	"io"
)

// htmlStyle dresses the page around the picture.
const htmlStyle = `
:root{color-scheme:light dark}
body{margin:0;background:#fbfbf9;color:#1b2733;font:14px/1.5 ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1200px;margin:0 auto;padding:0 0 48px}
svg{display:block;width:100%;height:auto}
section{margin:0 20px}h2{font-size:16px;margin:28px 0 8px}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13px}
th,td{text-align:left;vertical-align:top;padding:5px 14px 5px 0;border-bottom:1px solid #dde2e7}th{color:#5c6975;font-weight:600}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.w{min-width:36em}
td code{overflow-wrap:anywhere}code{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
@media (prefers-color-scheme:dark){body{background:#0f1419;color:#e4eaf0}th,td{border-color:#2b3640}th{color:#93a1ae}}
`

// rows of a page's tables.
const (
	htmlFindings = 500
	htmlQueues   = 500
)

// HTML writes the picture as a page with its numbers in tables below. The page needs no network and no script, and forbids both.
func (p *Picture) HTML(w io.Writer) error {
	d := p.draw()
	o := &page{w: w}
	o.f(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>%s</title><style>%s%s</style></head><body><main>`, escaped("message store "+p.Name, 200), htmlStyle, style)
	o.f(`<svg xmlns="http://www.w3.org/2000/svg" class="mq" viewBox="0 0 %g %g" role="img" aria-label="%s">`, picWidth, d.y, escaped("message store "+p.Name, 200))
	if o.err == nil {
		_, o.err = w.Write(d.b.Bytes())
	}
	o.f(`</svg>`)
	if len(p.Findings) > 0 {
		o.f(`<section><h2>Findings</h2><div class="wide"><table><tr><th>kind<th class="n">physical offset<th>where<th class="w">what it is<th>mended by</tr>`)
		for _, x := range p.Findings[:min(len(p.Findings), htmlFindings)] {
			where, mend := "", "hand"
			if x.QueueID >= 0 {
				where = escaped(fmt.Sprintf("%s / %d", x.Topic, x.QueueID), 300)
				if x.QueueOffset >= 0 {
					where += fmt.Sprintf(" at queue offset %d", x.QueueOffset)
				}
				where += "<br>"
			}
			if x.Mend != "" {
				mend = "mqstore " + x.Mend
			}
			o.f(`<tr><td>%s<td class="n">%s<td>%s<code>%s</code><td class="w">%s<td>%s</tr>`, escaped(string(x.Kind), 40), known(x.PhyOffset), where, escaped(x.File, 300), escaped(x.Detail, 1000), escaped(mend, 40))
		}
		o.f(`</table></div>`)
		if more := p.Total - int64(min(len(p.Findings), htmlFindings)); more > 0 {
			o.f(`<p>and %s: mqstore verify lists them all</p>`, counted(more, "more", "more"))
		}
		o.f(`</section>`)
	}
	if len(p.Queues) > 0 {
		o.f(`<section><h2>Queues</h2><div class="wide"><table><tr><th>topic<th class="n">queue<th class="n">from<th class="n">to<th class="n">records in the log<th class="n">bytes<th class="n">not in the queue yet<th class="n">dead<th class="n">behind the log's end</tr>`)
		for i := range p.Queues[:min(len(p.Queues), htmlQueues)] {
			q := &p.Queues[i]
			lag := "no record left"
			if q.FirstPhy >= 0 {
				lag = bytesText(p.axis.used(p.LogEnd) - p.axis.used(q.EndPhy))
			}
			o.f(`<tr><td>%s<td class="n">%d<td class="n">%d<td class="n">%d<td class="n">%s<td class="n">%s<td class="n">%s<td class="n">%s<td class="n">%s</tr>`,
				escaped(q.Topic, 300), q.QueueID, q.Min, q.Max, grouped(q.Records), bytesText(q.Bytes), grouped(q.Waiting), grouped(q.Dead), lag)
		}
		o.f(`</table></div>`)
		if more := len(p.Queues) - htmlQueues; more > 0 {
			o.f(`<p>and %s: mqstore queues lists them all</p>`, counted(int64(more), "more", "more"))
		}
		o.f(`</section>`)
	}
	o.f(`</main></body></html>`)
	return o.err
}

func known(n int64) string {
	if n < 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// page writes until the first error.
type page struct {
	w   io.Writer
	err error
}

// f writes; arguments that are strings come from escaped.
func (o *page) f(format string, args ...any) {
	if o.err == nil {
		_, o.err = fmt.Fprintf(o.w, format+"\n", args...)
	}
}
