package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/gym-observer/observer/client"
)

// report is the command without a name: one paragraph a process.
func report(ctx context.Context, args []string, stdout io.Writer) (int, error) {
	f := newFlags("observer")
	asJSON := f.Bool("json", false, "print the diagnoses as one JSON array")
	urls, err := f.parse(args)
	if err != nil {
		return failed, err
	}
	if err := needURLs(urls, math.MaxInt); err != nil {
		return failed, err
	}
	answers := client.GetAll(ctx, urls, f.options()...)
	code := fine
	for _, a := range answers {
		switch {
		case a.Err != nil || a.Report.Diagnosis.Verdict == "":
			code = failed
		case a.Report.Slow():
			code = max(code, slow)
		}
	}
	if *asJSON {
		return code, writeJSON(stdout, answersJSON(answers, urls))
	}
	now := time.Now()
	for i, a := range answers {
		if i > 0 {
			fmt.Fprintln(stdout)
		}
		io.WriteString(stdout, paragraph(urls[i], a, now))
	}
	return code, nil
}

// answersJSON has an object a URL, in their order: the fields of a Diagnosis and
// what Report adds, or url and error.
func answersJSON(answers []client.Answer, urls []string) []any {
	all := make([]any, len(answers))
	for i, a := range answers {
		if a.Err == nil {
			all[i] = a.Report
			continue
		}
		failure := struct {
			URL   string `json:"url"`
			Error string `json:"error"`
		}{Error: reasonOf(a.Err)}
		failure.URL = addressOf(urls[i], a.Err)
		all[i] = failure
	}
	return all
}

// writeJSON escapes what a page said by itself: encoding/json lets no control
// character through but DEL and those beyond ASCII.
func writeJSON(w io.Writer, value any) error {
	encoded, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range string(encoded) {
		if r >= 0x7f && r < 0xa0 || r > 0xff && plain(string(r), 1) != string(r) {
			if r > 0xffff { // JSON has these as two
				r -= 0x10000
				fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
				continue
			}
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	_, err = io.WriteString(w, b.String()+"\n")
	return err
}

// paragraph is what one process says.
func paragraph(url string, a client.Answer, now time.Time) string {
	var b strings.Builder
	if a.Err != nil {
		fmt.Fprintf(&b, "%s\n  no answer: %s\n", name(addressOf(url, a.Err)), text(reasonOf(a.Err)))
		return b.String()
	}
	r, d := a.Report, &a.Report.Diagnosis
	title := r.Name
	if r.PID != 0 {
		title += fmt.Sprintf(" (pid %d)", r.PID)
	}
	fmt.Fprintf(&b, "%s\n", strings.TrimSpace(name(title)+"  "+name(r.URL)))
	since := ""
	if !r.Since.IsZero() {
		since = fmt.Sprintf(" since %s (%s)", r.Since.In(now.Location()).Format(time.TimeOnly), ago(now.Sub(r.Since)))
	}
	if d.Verdict == "" {
		fmt.Fprintf(&b, "  no verdict yet: %s\n", text(d.Summary))
	} else {
		fmt.Fprintf(&b, "  %s%s: %s\n", name(string(d.Verdict)), since, text(r.Words()))
	}
	if f, ok := r.Finding(d.Verdict); ok && f.Advice != "" {
		fmt.Fprintf(&b, "  do: %s\n", text(f.Advice))
	}
	if len(d.Also) > 0 {
		var also []string
		for _, cause := range d.Also[:min(len(d.Also), 8)] {
			also = append(also, name(string(cause)))
		}
		fmt.Fprintf(&b, "  also: %s\n", strings.Join(also, ", "))
	}
	for i, s := range d.Sites[:min(len(d.Sites), 5)] {
		fmt.Fprintf(&b, "  %s %3.0f %%  %s  %s (%s)", label("sites:", i), 100*min(max(s.Share, 0), 1), cell(s.Kind, 5), name(s.Function), name(s.Location))
		if s.In != "" {
			fmt.Fprintf(&b, ", in %s", name(s.In))
		}
		if s.Caller != "" {
			fmt.Fprintf(&b, ", called from %s", name(s.Caller))
		}
		b.WriteByte('\n')
	}
	for i, p := range d.Peers[:min(len(d.Peers), 9)] {
		fmt.Fprintf(&b, "  %s %s for %s, %s each (%d in flight)\n", label("waits:", i), number(p.Waiting), name(p.Host), ago(p.Wait), p.InFlight)
	}
	for i, w := range d.Oldest[:min(len(d.Oldest), 3)] {
		what := w.Kind
		if w.Name != "" {
			what += " on " + w.Name
		}
		fmt.Fprintf(&b, "  %s %s, for %s\n", label("oldest:", i), name(what), ago(w.Age))
	}
	return b.String()
}

// label stands before the first line of a list alone.
func label(text string, i int) string {
	if i > 0 {
		text = ""
	}
	return cell(text, 7)
}

// reasonOf is why there is no answer, without the address.
func reasonOf(err error) string {
	var f *client.Failure
	if errors.As(err, &f) {
		return f.Reason
	}
	return err.Error()
}

// addressOf is what was asked, without secrets in it: what cannot be read as a URL
// is not repeated.
func addressOf(url string, err error) string {
	var f *client.Failure
	if errors.As(err, &f) && f.URL != "" {
		return f.URL
	}
	if at := strings.LastIndexByte(url, '@'); at >= 0 {
		url = url[at+1:]
	}
	return url
}
