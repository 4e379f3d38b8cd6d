package observer

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/evidence"
	"github.com/gym-observer/observer/internal/examine"
	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/page"
	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/response"
	"github.com/gym-observer/observer/internal/sites"
	"github.com/gym-observer/observer/internal/survive"
	"github.com/gym-observer/observer/internal/verdict"
	"github.com/gym-observer/observer/internal/window"
)

// seenOften is the longest interval of samples at which work in flight may get its
// time from them.
const seenOften = time.Second

// sampler is what is sampled once for the process, whichever loop's turn it is. It
// reads one sample a tick and hands it to all who want it: the window, the page's
// history and the capture.
type sampler struct {
	failures *survive.Failures
	recorder atomic.Pointer[recorder] // nil until there is a provider's

	gc        gcRecorder
	windows   window.Series
	examiner  examine.Examiner
	judge     diagnosis.Judge // belongs to whoever samples
	samples   int             // in the open window; likewise
	diagnosed atomic.Pointer[verdict.Verdict]
	history   *page.Recorder    // what the page shows
	capture   *evidence.Capture // nil where there is none
}

// begin opens the first window.
func (s *sampler) begin(now time.Time) {
	defer s.failures.Survive("diagnosis")
	defer s.windows.Report() // last of all: see take
	s.diagnosed.Store(nil)
	s.judge = diagnosis.Judge{}
	s.examiner.Begin()
	s.windows.Begin(now)
	totals.driver.openWindow(now)
	first := sampleOf(now, 0, reading.Queues{})
	first.Admissions, first.Waited = s.admitted()
	s.history.Begin(&first)
}

// take takes one sample. What went wrong is logged when all else is done: a log
// handler that hangs may hold this sampler up for longer than a Stop waits, so that
// the next loop samples meanwhile, and both would write to the same.
func (s *sampler) take(now time.Time, lag time.Duration, queues reading.Queues, interval time.Duration) {
	var failed error
	var changed *diagnosis.Outcome
	defer func() { s.failures.Report(GCPauseInstrument, failed) }()
	defer func() { s.logChange(changed) }()
	defer s.windows.Report()
	sample := sampleOf(now, lag, queues)
	seeWork(interval <= seenOften)
	if to := s.recorder.Load(); to != nil {
		sample.Pauses, _, failed = s.gc.poll(to)
	}
	sample.Admissions, sample.Waited = s.admitted()
	s.history.Add(&sample, interval)
	totals.requests.peers.Sample()
	sample.Pooled = s.examiner.Pooled()
	s.samples++
	s.examiner.Look(now, inFlight)
	if w := s.windows.Add(&sample, s.examiner.Tell); w != nil {
		totals.driver.openWindow(now)
		changed = s.publish(w)
		s.capture.Watch()
	}
	if s.capture.IsLate(lag) {
		s.capture.Begin("lag", s.files(now)...)
	}
}

// takeLast takes what has happened since the last sample, when there will be no
// other: all of it, as long as the provider takes it.
func (s *sampler) takeLast() {
	to := s.recorder.Load()
	if to == nil {
		return
	}
	for {
		_, all, err := s.gc.poll(to)
		s.failures.Report(GCPauseInstrument, err)
		if all || !to.PassOn(loopPatience) {
			return
		}
	}
}

// windowsOf are the windows of this process, each of a length or a little more.
func windowsOf(every time.Duration, process reading.Process, failed func(cause string, err error)) window.Series {
	return window.Series{Every: every, Process: process, Machine: totals.machine, Counts: readCounts, Failed: failed}
}

// readCounts adds to a reading what this process counts of itself, and keeps what is
// exported of the rest.
func readCounts(r *diagnosis.Reading) {
	requests, driver := &totals.requests, &totals.driver
	r.OutboundEnded = requests.outbound.Ended() - requests.expectedOutbound.Ended()
	r.RequestsEnded = requests.served.Ended() + requests.responses.Ended() - requests.expectedServed.Ended() - response.Streamed()
	r.AdmissionEnded = driver.waiting.Ended()
	r.Written = time.Duration(driver.written.Load())
	if delay, ok := r.RunDelay.Get(); ok {
		totals.runDelay.Raise(delay)
	}
	if throttled, ok := r.Throttled.Get(); ok {
		totals.throttled.Raise(throttled)
	}
}

// sampleOf reads, beside what the loop has measured, what is in flight in this
// process.
func sampleOf(at time.Time, lag time.Duration, queues reading.Queues) diagnosis.Sample {
	requests, driver := &totals.requests, &totals.driver
	sample := diagnosis.Sample{
		At: at, Lag: lag,
		Runnable: queues.Runnable, NotInGo: queues.NotInGo,

		Requests: requests.inFlight(),
		Outbound: requests.outbound.Now(),
		Resident: driver.resident.Now(),
		Active:   driver.active.Load(),
		Waiting:  driver.waiting.Now(),
		Writing:  driver.writing.Now(),

		ExpectedRequests: requests.expectedServed.Now(),
		ExpectedOutbound: requests.expectedOutbound.Now(),
		Streams:          response.Streaming(),

		Driving: driver.driving.Load(),
		Offered: driver.offered.Load(),
	}
	for status, n := range requests.responses.All() {
		sample.Responses[min(status/100, diagnosis.ResponseClasses)-1] += n
	}
	return sample
}

// inFlight is what the counters say at the moment of a snapshot.
func inFlight() sites.Now {
	requests := &totals.requests
	return sites.Now{
		InFlight:  int(requests.inFlight()),
		Expected:  int(requests.expectedServed.Now()),
		Streaming: int(response.Streaming()),
	}
}

// seeWork gives requests that have begun since the last sample their time, and
// says whether that will be done often.
func seeWork(often bool) {
	requests := &totals.requests
	requests.listed.SeenOften(often)
	requests.calls.SeenOften(often)
	// Also where it is the last look for long: what has no time yet would have an age
	// of 0 until somebody looks.
	if requests.inFlight() > 0 {
		requests.listed.See()
	}
	if requests.outbound.Now() > 0 {
		requests.calls.See()
	}
}

// admitted returns how many admissions were recorded, and their waits in all.
func (s *sampler) admitted() (admissions int64, waited time.Duration) {
	if to := s.recorder.Load(); to != nil {
		return to.admitted()
	}
	return 0, 0
}

// held is what the process holds now, as far as it can be read.
func (s *sampler) held() (held page.Held) {
	defer s.failures.Survive("history") // a source's; the verdict goes on
	memory, err := s.windows.Process.ResidentMemory()
	held.Memory = number.If(err == nil, float64(memory))
	threads, err := s.windows.Process.Threads()
	held.Threads = number.If(err == nil, float64(threads))
	return held
}

// publish takes the verdict of a window, counts its time, and returns the outcome if
// it changed the verdict, which is still to be logged.
func (s *sampler) publish(w *diagnosis.Window) *diagnosis.Outcome {
	outcome := s.judge.Next(w, s.windows.Every)
	cause := outcome.Verdict
	s.examiner.EndWindow(w, s.windows.Every)
	found, where := s.examiner.Of(cause, w.At)
	peers := totals.requests.peers.EndWindow(s.samples, w.Length)
	s.samples = 0
	s.diagnosed.Store(&verdict.Verdict{Outcome: outcome, Sites: found, Where: where, Peers: peers})
	totals.slowTime[cause].Add(int64(w.Length))
	s.history.AddWindow(w, cause, s.held())
	if !outcome.Changed {
		return nil
	}
	if outcome.Level() >= slog.LevelWarn {
		s.capture.Begin(cause.Name(), s.files(w.At)...)
	}
	return outcome
}

// logChange says what the verdict has become; nil is no change.
func (s *sampler) logChange(to *diagnosis.Outcome) {
	if to != nil {
		survive.Log(s.failures.Logger, to.Level(), "observer: verdict changed", attributesOfVerdict(s.current())...)
	}
}

// attributesOfVerdict are those of the log line.
func attributesOfVerdict(d Diagnosis) []slog.Attr {
	attributes := []slog.Attr{slog.String("verdict", string(d.Verdict)), slog.String("summary", d.Summary)}
	if len(d.Sites) > 0 {
		attributes = append(attributes, slog.String("site", d.Sites[0].Location), slog.Float64("share", d.Sites[0].Share))
	}
	return attributes
}

// files are those of a capture: what the diagnosis says, and the profile of the
// processor that its sites come from.
func (s *sampler) files(now time.Time) []evidence.File {
	files := filesOf(s.current())
	if latest := s.diagnosed.Load(); latest != nil {
		if profile := s.examiner.ProfileOf(latest.Verdict, now); profile != nil {
			files = append(files, evidence.Bytes("cpu.pprof", profile))
		}
	}
	return files
}

func filesOf(d Diagnosis) []evidence.File {
	files := []evidence.File{evidence.JSON("diagnosis.json", d)}
	if len(d.Sites) > 0 {
		files = append(files, evidence.JSON("sites.json", d.Sites))
	}
	return files
}

// current is the diagnosis of the last complete window.
func (s *sampler) current() Diagnosis { return diagnosisSoFar(s.diagnosed.Load()) }

func diagnosisSoFar(latest *verdict.Verdict) Diagnosis {
	if latest == nil {
		return Diagnosis{Summary: "the first window is not complete yet"}
	}
	return diagnosisOf(latest, time.Now())
}
