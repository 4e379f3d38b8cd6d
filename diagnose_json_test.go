package observer_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

func TestH82ThereAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := start(t, "test", observer.WithWindow(time.Second), observer.WithSampleInterval(100*time.Millisecond))
		defer o.Stop()
		defer rollouts(3)()
		time.Sleep(2500*time.Millisecond + 7*time.Nanosecond)
		d := observer.Diagnose()
		require.NotEmpty(t, d.Findings)
		require.NotEmpty(t, d.Oldest)
		assertThereAndBack(t, d)
	})
}

func TestDiagnosisThereAndBack(t *testing.T) {
	for name, d := range map[string]observer.Diagnosis{
		"zero":  {},
		"empty": {At: time.Date(2026, 3, 4, 14, 3, 5, 1, time.UTC), Verdict: observer.CauseNone, Summary: "none"},
		"full": {
			At:         time.Date(2026, 3, 4, 14, 3, 5, 250e6+1, time.FixedZone("", -5400)),
			Window:     10*time.Second + 1,
			Verdict:    observer.CauseWait,
			Summary:    "wait: \"quoted\" <b>, and a line\nmore",
			Findings:   []observer.Finding{{Cause: observer.CauseWait, Load: 1.0 / 3, Evidence: "e", Advice: "a"}},
			Unmeasured: []observer.Cause{observer.CauseCPUContended},
			Oldest:     []observer.Work{{Kind: "request", Name: "/{id}", Age: 400*24*time.Hour + 1}, {Kind: "rollout", Age: -1}},
			Also:       []observer.Cause{observer.CauseDownstream, observer.CauseLock},
			Sites:      []observer.Site{{Kind: "wait", Function: "main.f", Location: "f.go:1", In: "database/sql.(*DB).conn", Caller: "m.go:2", Load: 11.8, Share: 0.98}},
			Peers:      []observer.Peer{{Host: "model:8000", Waiting: 14.2, Wait: math.MaxInt64, InFlight: 15}, {Host: "others", Wait: math.MinInt64}},
		},
	} {
		t.Run(name, func(t *testing.T) { assertThereAndBack(t, d) })
	}
}

func assertThereAndBack(t *testing.T, d observer.Diagnosis) {
	t.Helper()
	text, err := json.Marshal(d)
	require.NoError(t, err)
	var back observer.Diagnosis
	require.NoError(t, json.Unmarshal(text, &back), "%s", text)
	assert.True(t, d.At.Equal(back.At), "At is %v and comes back as %v", d.At, back.At)
	back.At = d.At // the same moment; its zone need not be the same pointer
	assert.Equal(t, d, back, "%s", text)
}

// What a page said before this version, or what another program wrote, is read as
// far as it goes.
func TestDiagnosisFromOtherHands(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want observer.Diagnosis
	}{
		"without the later fields": {`{"verdict": "lock", "window_seconds": 10}`, observer.Diagnosis{Verdict: observer.CauseLock, Window: 10 * time.Second}},
		"null":                     {`{"verdict": "lock", "window_seconds": null, "oldest": null, "findings": [{"load": null}]}`, observer.Diagnosis{Verdict: observer.CauseLock, Findings: []observer.Finding{{}}}},
		"more than we know":        {`{"history": {"seconds": [1]}, "oldest": [{"age_seconds": 2, "colour": "red"}]}`, observer.Diagnosis{Oldest: []observer.Work{{Age: 2 * time.Second}}}},
		"floats":                   {`{"oldest": [{"age_seconds": 12.345678900000001}, {"age_seconds": 1e-3}, {"age_seconds": 2.5E2}]}`, observer.Diagnosis{Oldest: []observer.Work{{Age: 12345678900}, {Age: time.Millisecond}, {Age: 250 * time.Second}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var d observer.Diagnosis
			require.NoError(t, json.Unmarshal([]byte(c.text), &d))
			assert.Equal(t, c.want, d)
		})
	}
	for name, text := range map[string]string{
		"no object":      `[]`,
		"a string":       `{"window_seconds": "10"}`,
		"too long":       `{"window_seconds": 1e10}`,
		"past a float":   `{"window_seconds": 1e999}`,
		"of another age": `{"oldest": [{"age_seconds": "old"}]}`,
		"of a peer":      `{"peers": [{"wait_seconds": -9e300}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := observer.Diagnosis{Summary: "as it was"}
			assert.Error(t, json.Unmarshal([]byte(text), &d))
			assert.Equal(t, observer.Diagnosis{Summary: "as it was"}, d)
		})
	}
}

func FuzzDiagnosisThereAndBack(f *testing.F) {
	f.Add(int64(1772632985), int64(250e6), int64(10250e6), "gc", "gc: \"it\"", 1.125, int64(1500e6), int64(-1), 3)
	f.Add(int64(0), int64(0), int64(math.MaxInt64), "", "", math.SmallestNonzeroFloat64, int64(math.MinInt64), int64(1<<62+1), -1)
	f.Fuzz(func(t *testing.T, second, nano, window int64, cause, text string, load float64, age, wait int64, n int) {
		at := time.Unix(second, nano).UTC()
		if at.Year() < 0 || at.Year() > 9999 || math.IsNaN(load) || math.IsInf(load, 0) {
			t.Skip("JSON has no such time or number")
		}
		cause, text = strings.ToValidUTF8(cause, "?"), strings.ToValidUTF8(text, "?")
		assertThereAndBack(t, observer.Diagnosis{
			At:         at,
			Window:     time.Duration(window),
			Verdict:    observer.Cause(cause),
			Summary:    text,
			Findings:   []observer.Finding{{Cause: observer.Cause(cause), Load: load, Evidence: text}},
			Unmeasured: []observer.Cause{observer.Cause(text)},
			Oldest:     []observer.Work{{Kind: cause, Name: text, Age: time.Duration(age)}},
			Also:       []observer.Cause{observer.Cause(cause)},
			Sites:      []observer.Site{{Kind: cause, Location: text, Load: load, Share: -load}},
			Peers:      []observer.Peer{{Host: text, Waiting: load, Wait: time.Duration(wait), InFlight: n}},
		})
	})
}
