package suite

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// again is how often a test that differs is run again, both ways, before it
// counts: timing is the usual reason, and has nothing to do with the observer.
const again = 3

// Difference is a test that passes without the observer, and not with it.
type Difference struct {
	Package, Test string
	Mode          Mode
	Outcome       string // with the observer, the first time
	With, Without int    // how many of three runs again did not pass, each way
	Reason        string // of one that is listed; empty for one that is not
	Output        string // of the last run again with the observer
}

func (d Difference) String() string {
	return fmt.Sprintf("%s, %s: %s %s; again: not passed %d of %d with the observer, %d without",
		d.Package, d.Mode, d.Test, d.Outcome, d.With, again, d.Without)
}

// Result is the comparison of one package's tests in one mode.
type Result struct {
	Package             string
	Mode                Mode
	Tests               int // and subtests, without the observer
	PassWithout, Pass   int
	Requests, Responses int64 // that went through the middleware or the transport
	LeftBehind          int64 // in flight when the tests had ended, by the hook's own count

	Differences []Difference // that count, listed ones included
	Chance      []Difference // that did not come again
	Wrong       []string     // of the counts
}

// Unlisted returns the differences that nobody has given a reason for.
func (r Result) Unlisted() []Difference {
	return slices.DeleteFunc(slices.Clone(r.Differences), func(d Difference) bool { return d.Reason != "" })
}

func (r Result) String() string {
	return fmt.Sprintf("%-26s %-9s %4d of %4d tests pass, without the observer %4d; %6d requests, %6d responses, %d left behind; %d differ as listed, %d otherwise",
		r.Package, r.Mode, r.Pass, r.Tests, r.PassWithout, r.Requests, r.Responses, r.LeftBehind, len(r.Differences)-len(r.Unlisted()), len(r.Unlisted()))
}

// Compare builds a suite and runs it without the observer and in each mode.
func (w *Workshop) Compare(ctx context.Context, s Suite, modes []Mode) ([]Result, error) {
	w.Log("%s: building", s.Name)
	binaries, err := w.build(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("building %s: %w", s.Name, err)
	}
	var results []Result
	for _, b := range binaries {
		w.Log("%s: running without the observer", b.label)
		without, err := w.runToItsEnd(ctx, s, b, Without)
		if err != nil {
			return results, err
		}
		if !without.ended || len(without.tests) == 0 {
			return results, fmt.Errorf("%s does not even run without the observer:\n%s", b.label, tail(without.output))
		}
		for _, mode := range modes {
			w.Log("%s: running with the observer, %s", b.label, mode)
			result, err := w.compare(ctx, s, b, mode, without)
			if err != nil {
				return results, err
			}
			results = append(results, result)
		}
	}
	if len(modes) == len(Modes) && !slices.ContainsFunc(results, func(r Result) bool { return r.Requests > 0 }) {
		return results, fmt.Errorf("%s: no request went through the observer in any mode", s.Name)
	}
	return results, nil
}

func (w *Workshop) compare(ctx context.Context, s Suite, b binary, mode Mode, without run) (Result, error) {
	with, err := w.runToItsEnd(ctx, s, b, mode)
	if err != nil {
		return Result{}, err
	}
	result := Result{
		Package: b.label, Mode: mode, Tests: len(without.tests), Wrong: sane(with.counts),
		PassWithout: count(without.tests, passed), Pass: count(with.tests, passed),
	}
	for _, c := range with.counts {
		result.Requests += c.Entered + c.Sent
		result.Responses += c.Responses
		result.LeftBehind += c.InFlight + c.Outbound
	}
	for _, test := range differing(without.tests, with.tests) {
		d := Difference{Package: b.label, Mode: mode, Test: test, Outcome: string(of(with.tests, test))}
		if err := w.tryAgain(ctx, s, b, &d); err != nil {
			return Result{}, err
		}
		if d.With <= d.Without {
			result.Chance = append(result.Chance, d)
			continue
		}
		d.Reason = reasonFor(d)
		result.Differences = append(result.Differences, d)
	}
	if !with.ended && len(result.Differences) == 0 {
		result.Wrong = append(result.Wrong, "the tests did not come to their end twice, but no test alone shows why:\n"+tail(with.output))
	}
	return result, nil
}

// runToItsEnd runs once more what ended before its time: a panic or a deadlock
// that came by chance would hide all the tests behind it.
func (w *Workshop) runToItsEnd(ctx context.Context, s Suite, b binary, mode Mode) (run, error) {
	r, err := w.run(ctx, s, b, mode, "")
	if err == nil && !r.ended && ctx.Err() == nil {
		w.Log("%s, %s: did not come to its end, once more", b.label, mode)
		r, err = w.run(ctx, s, b, mode, "")
	}
	if err == nil {
		err = ctx.Err()
	}
	return r, err
}

// tryAgain runs one test again, both ways.
func (w *Workshop) tryAgain(ctx context.Context, s Suite, b binary, d *Difference) error {
	only := "^" + regexp.QuoteMeta(d.Test) + "$"
	for range again {
		for _, mode := range []Mode{Without, d.Mode} {
			r, err := w.run(ctx, s, b, mode, only)
			if err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if of(r.tests, d.Test) == passed && r.ended {
				continue
			}
			if mode == Without {
				d.Without++
				continue
			}
			d.With++
			d.Output = tail(r.output)
		}
	}
	return nil
}

// differing returns the top-level tests that, with the observer, do not pass in
// all that passes without it. A subtest that is not there counts only where its
// test does not pass either: some have a port or a time in their names.
func differing(without, with map[string]outcome) (tests []string) {
	for name, was := range without {
		top, _, sub := strings.Cut(name, "/")
		is := of(with, name)
		if was != passed || is == passed || sub && is == absent && of(with, top) == passed {
			continue
		}
		if !slices.Contains(tests, top) {
			tests = append(tests, top)
		}
	}
	slices.Sort(tests)
	return tests
}

func of(tests map[string]outcome, name string) outcome {
	if is, ok := tests[name]; ok {
		return is
	}
	return absent
}

func count(tests map[string]outcome, want outcome) (n int) {
	for _, is := range tests {
		if is == want {
			n++
		}
	}
	return n
}

// tail returns the end of an output.
func tail(output string) string {
	const most = 4000
	output = strings.ReplaceAll(output, "\x16", "")
	return output[max(0, len(output)-most):]
}
