package page

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/wire"
)

// position tells how far a reader has read a history: the numbers of its last
// rows.
type position struct{ second, window uint64 }

// encodeAll returns a snapshot and the history as JSON, as far as its rows ended
// within span before now.
func (h *Handler) encodeAll(s Snapshot, span time.Duration) []byte {
	all := h.all(s)
	oldest := all.Now.Add(-span)
	all.History.Seconds = newest(all.History.Seconds, func(s second) bool { return s.At.Before(oldest) })
	all.History.Windows = newest(all.History.Windows, func(w window) bool { return w.At.Before(oldest) })
	return marshal(all)
}

// newest returns the rows that are not too old, and the last one in any case: one
// of a long window is still what is known now.
func newest[T any](rows []T, old func(T) bool) []T {
	first := 0
	for first < len(rows)-1 && old(rows[first]) {
		first++
	}
	return rows[first:]
}

// encodeFirst returns the same, with what the page writes under its pictures.
func (h *Handler) encodeFirst(s Snapshot) []byte {
	first := h.all(s)
	first.Signals = h.text.Signals
	return marshal(first)
}

func (h *Handler) all(s Snapshot) document {
	all, _ := h.encode(s, position{})
	all.History.LagBoundaries = h.lagBoundaries()
	all.Causes = &h.text.Causes
	return all
}

// encodeSince returns a snapshot as JSON, with what was added to the history
// since a position, and the position after that.
func (h *Handler) encodeSince(s Snapshot, read position) ([]byte, position) {
	update, read := h.encode(s, read)
	return marshal(update), read
}

func (h *Handler) encode(s Snapshot, read position) (document, position) {
	now := time.Now()
	d := document{
		Now:           now,
		At:            s.At,
		WindowSeconds: s.Window.Seconds(),
		Verdict:       s.Verdict,
		Summary:       s.Summary,
		Findings:      wire.NotNull(s.Findings),
		Unmeasured:    wire.NotNull(s.Unmeasured),
		Oldest:        []work{},
		History:       history{Seconds: []second{}, Windows: []window{}},
		Also:          wire.NotNull(s.Also),
		Sites:         wire.NotNull(s.Sites),
		Peers:         []peer{},
		Process:       cmp.Or(s.Process, h.text.Process),
		PID:           h.text.PID,
		Captures:      h.captures.of(&h.disk, s.Captures),
	}
	if !s.Since.IsZero() {
		d.Since = &s.Since
	}
	for _, p := range s.Peers {
		d.Peers = append(d.Peers, peer{p.Host, Number(p.Waiting), p.Wait.Seconds(), p.InFlight})
	}
	for _, w := range s.Oldest {
		d.Oldest = append(d.Oldest, work{w.Kind, w.Name, w.Age.Seconds()})
	}
	if s.History == nil {
		return d, position{}
	}
	for _, row := range s.History.seconds.since(read.second, now) {
		d.History.Seconds = append(d.History.Seconds, secondOf(row))
		read.second = row.number
	}
	for _, row := range s.History.windows.since(read.window, now) {
		d.History.Windows = append(d.History.Windows, windowOf(row))
		read.window = row.number
	}
	return d, read
}

// marshal says so where a document cannot be encoded, as on a machine whose clock
// is beyond the year 9999.
func marshal(d document) []byte {
	encoded, err := json.Marshal(d)
	if err != nil {
		encoded, _ = json.Marshal(document{
			Summary:    "the page cannot be encoded: " + err.Error(),
			Findings:   []Finding{},
			Unmeasured: []string{},
			Oldest:     []work{},
			Also:       []string{},
			Sites:      []Site{},
			Peers:      []peer{},
			Process:    d.Process,
			PID:        d.PID,
			History:    history{Seconds: []second{}, Windows: []window{}},
			Captures:   []capture{},
			Causes:     d.Causes,
			Signals:    d.Signals,
		})
	}
	return encoded
}

// document is the JSON of the page, for scripts as for its own.
type document struct {
	Process       string     `json:"process"`
	PID           int        `json:"pid"`
	Now           time.Time  `json:"now"`
	At            time.Time  `json:"at"`
	WindowSeconds float64    `json:"window_seconds"`
	Verdict       string     `json:"verdict"`
	Since         *time.Time `json:"verdict_since,omitempty"` // none while that is not known
	Summary       string     `json:"summary"`
	Also          []string   `json:"also"`
	Findings      []Finding  `json:"findings"`
	Unmeasured    []string   `json:"unmeasured"`
	Sites         []Site     `json:"sites"`
	Peers         []peer     `json:"peers"`
	Oldest        []work     `json:"oldest"`
	History       history    `json:"history"`
	Captures      []capture  `json:"captures"`

	// Only in whole documents.
	Causes  *[]Cause          `json:"causes,omitempty"`
	Signals map[string]Signal `json:"signals,omitempty"` // for the page alone
}

type peer struct {
	Host        string  `json:"host"`
	Waiting     Number  `json:"waiting"`
	WaitSeconds float64 `json:"wait_seconds"`
	InFlight    int     `json:"in_flight"`
}

type work struct {
	Kind       string  `json:"kind"`
	Name       string  `json:"name"`
	AgeSeconds float64 `json:"age_seconds"`
}

type history struct {
	LagBoundaries []float64 `json:"lag_boundaries_seconds,omitempty"`
	Seconds       []second  `json:"seconds"`
	Windows       []window  `json:"windows"`
}

type second struct {
	Number        uint64            `json:"number"`
	At            time.Time         `json:"at"`
	LengthSeconds float64           `json:"length_seconds"`
	Gap           bool              `json:"gap"`
	Samples       int64             `json:"samples"`
	Lag           [LagBuckets]int64 `json:"lag"`
	LongestLag    float64           `json:"longest_lag_seconds"`
	InFlight      float64           `json:"in_flight"`
	Outbound      float64           `json:"outbound"`
	Responses     responses         `json:"responses"`
	Pauses        int64             `json:"pauses"`
	Paused        float64           `json:"paused_seconds"`
	LongestPause  float64           `json:"longest_pause_seconds"`
	Driver        *driver           `json:"driver"` // null in a process that drives no rollouts
}

type responses struct {
	Informational int64 `json:"1xx"`
	Successful    int64 `json:"2xx"`
	Redirected    int64 `json:"3xx"`
	ClientErrors  int64 `json:"4xx"`
	ServerErrors  int64 `json:"5xx"`
	Other         int64 `json:"other"`
}

type driver struct {
	Offered    int64   `json:"offered"`
	Resident   float64 `json:"resident"`
	Active     float64 `json:"active"`
	Waiting    float64 `json:"waiting"`
	Admissions int64   `json:"admissions"`
	Waited     float64 `json:"waited_seconds"`
}

func secondOf(row numbered[Second]) second {
	s := &row.value
	encoded := second{
		Number:        row.number,
		At:            s.At.Time(),
		LengthSeconds: s.Length.Seconds(),
		Gap:           s.Gap,
		Samples:       s.Samples,
		Lag:           s.Lag,
		LongestLag:    s.LongestLag.Seconds(),
		InFlight:      s.InFlight,
		Outbound:      s.Outbound,
		Responses:     responses{s.Responses[0], s.Responses[1], s.Responses[2], s.Responses[3], s.Responses[4], s.Responses[5]},
		Pauses:        s.Pauses,
		Paused:        s.Paused.Seconds(),
		LongestPause:  s.LongestPause.Seconds(),
	}
	if s.Driving {
		encoded.Driver = &driver{s.Offered, s.Resident, s.Active, s.Waiting, s.Admissions, s.Waited.Seconds()}
	}
	return encoded
}

type window struct {
	Number        uint64            `json:"number"`
	At            time.Time         `json:"at"`
	LengthSeconds float64           `json:"length_seconds"`
	Verdict       string            `json:"verdict"`
	Processors    Number            `json:"processors"`
	CPUs          Number            `json:"cpus"`
	Load          map[string]Number `json:"load"`
	CPU           Number            `json:"cpu"`
	Memory        Number            `json:"memory_bytes"`
	Threads       Number            `json:"threads"`
	Descriptors   Number            `json:"descriptors"`
}

func windowOf(row numbered[Window]) window {
	w := &row.value
	load := make(map[string]Number)
	for cause := range diagnosis.All() {
		load[cause.Name()] = w.Load[cause]
	}
	return window{
		Number:        row.number,
		At:            w.At.Time(),
		LengthSeconds: w.Length.Seconds(),
		Verdict:       w.Verdict.Name(),
		Processors:    w.Processors,
		CPUs:          w.CPUs,
		Load:          load,
		CPU:           w.CPU,
		Memory:        w.Memory,
		Threads:       w.Threads,
		Descriptors:   w.Descriptors,
	}
}

func (h *Handler) lagBoundaries() (seconds []float64) {
	for _, boundary := range h.text.LagBoundaries {
		seconds = append(seconds, boundary.Seconds())
	}
	return seconds
}
