package observer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/page"
)

// shown returns the JSON of the page.
func shown(t *testing.T) map[string]any {
	t.Helper()
	answer := httptest.NewRecorder()
	Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/?format=json", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	var document map[string]any
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &document))
	return document
}

// sampled returns the seconds of a history that began at a round time and was given
// samples at the given times after it.
func sampled(h *history, samples ...time.Duration) []page.Second {
	now := time.Now()
	h.begin(now)
	for _, after := range samples {
		h.add(sampleAt(now.Add(after), 0), 100*time.Millisecond)
	}
	return h.Seconds(now.Add(time.Minute))
}

func newHistory() *history {
	return &history{
		History:   new(page.History),
		process:   newProcessSource(),
		admission: func() (int64, time.Duration) { return 0, 0 },
	}
}

func TestHistoryIsUnderOneMebibyteInAll(t *testing.T) {
	assert.Less(t, unsafe.Sizeof(history{}), uintptr(1<<20))
}

func TestHistoryHasRoomForWhatIsMeasured(t *testing.T) {
	assert.Equal(t, page.LagBuckets, len(lagEdges)+1)
	assert.LessOrEqual(t, len(slices.Collect(diagnosis.All())), page.MaxCauses)
}

// sourceOfPage reads one of the files of the page.
func sourceOfPage(t *testing.T, name string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("internal", "page", name))
	require.NoError(t, err)
	return string(source)
}

func TestEveryPictureHasACaption(t *testing.T) {
	pictures, signals := sourceOfPage(t, "pictures.js"), pageText().Signals
	assert.Equal(t, strings.Count(pictures, "\n\t\tsection: "), strings.Count(pictures, "\n\t\tcaption: "))
	names := regexp.MustCompile(`'((?:gym|process)\.[a-z_.]+)'`).FindAllStringSubmatch(pictures, -1)
	require.Greater(t, len(names), 10)
	for _, name := range names {
		assert.NotEmpty(t, signals[name[1]].Description, name[1])
		assert.NotEmpty(t, signals[name[1]].Advice, name[1])
	}
}

func TestEveryCauseHasAColour(t *testing.T) {
	style := sourceOfPage(t, "page.css")
	for _, cause := range append(slices.Collect(diagnosis.All()), diagnosis.Unknown) {
		assert.Contains(t, style, fmt.Sprintf(".c-%s { --c: var(--%[1]s); }", cause.Name()))
		assert.Equal(t, 2, strings.Count(style, fmt.Sprintf("--%s: #", cause.Name())), "%s, for light and for dark", cause)
	}
}

func TestASecondEndsWithTheFirstSampleAfterIt(t *testing.T) {
	all := sampled(newHistory(), 400*time.Millisecond, 900*time.Millisecond, 1100*time.Millisecond, 1500*time.Millisecond, 2200*time.Millisecond, 3*time.Second)
	require.Equal(t, 2, len(all))
	assert.Equal(t, []time.Duration{1100 * time.Millisecond, 1100 * time.Millisecond}, []time.Duration{all[0].Length, all[1].Length})
	assert.Equal(t, []int64{3, 2}, []int64{all[0].Samples, all[1].Samples})
	assert.False(t, all[0].Gap || all[1].Gap)
}

func TestAHeldUpSamplerLeavesAGap(t *testing.T) {
	all := sampled(newHistory(), time.Second, 1300*time.Millisecond, 40*time.Second, 41*time.Second)
	require.Equal(t, 3, len(all))
	assert.Equal(t, []bool{false, true, false}, []bool{all[0].Gap, all[1].Gap, all[2].Gap})
	assert.Equal(t, 39*time.Second, all[1].Length)
}

// A sampler that is meant to be slow has no gaps.
func TestASlowSamplerHasNoGaps(t *testing.T) {
	h, now := newHistory(), time.Now()
	h.begin(now)
	h.add(sampleAt(now.Add(30*time.Second), 0), 27*time.Second)
	all := h.Seconds(now.Add(time.Minute))
	require.Equal(t, 1, len(all))
	assert.False(t, all[0].Gap)
	assert.Equal(t, 30*time.Second, all[0].Length)
}

func TestHistoryCountsLagAsTheHistogramDoes(t *testing.T) {
	i := manually(t)
	now := time.Now()
	i.history.begin(now)
	var want page.Second
	for n, lag := range []time.Duration{0, 50 * time.Microsecond, 50*time.Microsecond + 1, time.Millisecond, 3 * time.Millisecond, 5 * time.Second, time.Hour} {
		due := now.Add(time.Duration(n) * time.Millisecond)
		i.loop.now = func() time.Time { return due.Add(lag) }
		i.loop.sample(due)
	}
	for bucket, n := range i.histogram(t, EventLoopLagInstrument).BucketCounts {
		want.Lag[bucket] = int64(n)
	}
	var got page.Second
	for _, s := range i.history.Seconds(now.Add(time.Minute)) {
		got.LongestLag = max(got.LongestLag, s.LongestLag)
		for bucket, n := range s.Lag {
			got.Lag[bucket] += n
		}
	}
	assert.Equal(t, want.Lag, got.Lag)
	assert.Equal(t, time.Hour, got.LongestLag)
}

func TestHistoryAddsUpToTheCounters(t *testing.T) {
	i := manually(t)
	admission := NewMeteredAdmission(semaphore.NewWeighted(1))
	handler := Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			w.WriteHeader(http.StatusMovedPermanently)
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/broken":
			w.WriteHeader(http.StatusBadGateway)
		case "/strange":
			w.WriteHeader(777)
		}
	}))
	before := driverTotals.Counts()
	now := time.Now()
	i.history.begin(now)
	for n := range 5 {
		for _, path := range []string{"/", "/", "/", "/moved", "/missing", "/missing", "/broken", "/strange"} {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
		}
		Driver().Offer(2)
		require.NoError(t, admission.Do(context.Background(), func(context.Context) error {
			i.recordings.passOnAll()
			i.history.add(sampleAt(now.Add(time.Duration(n)*time.Second+500*time.Millisecond), 0), time.Second)
			return nil
		}))
		i.recordings.passOnAll()
		i.history.add(sampleAt(now.Add(time.Duration(n+1)*time.Second), 0), time.Second)
	}
	all := i.history.Seconds(now.Add(time.Minute))
	require.Equal(t, 5, len(all))
	for _, s := range all {
		assert.Equal(t, [page.ResponseClasses]int64{0, 3, 1, 2, 1, 1}, s.Responses)
		assert.True(t, s.Driving)
		assert.EqualValues(t, 2, s.Offered)
		assert.EqualValues(t, 1, s.Admissions)
		assert.Equal(t, float64(before.Active)+0.5, s.Active, "active in one sample of two")
		assert.Equal(t, float64(requestTotals.servedNow()), s.InFlight)
	}
	waits := i.histogram(t, DriverAdmissionInstrument)
	var waited time.Duration
	for _, s := range all {
		waited += s.Waited
	}
	assert.EqualValues(t, 5, waits.Count)
	assert.InDelta(t, waits.Sum, milliseconds(waited), 1e-4, "milliseconds waited, as exported")
}

func TestHistoryCountsPauses(t *testing.T) {
	h, now := newHistory(), time.Now()
	h.begin(now)
	h.pause(0.002)
	h.pause(0.003)
	h.add(sampleAt(now.Add(time.Second), 0), time.Second)
	h.add(sampleAt(now.Add(2*time.Second), 0), time.Second)
	all := h.Seconds(now.Add(time.Minute))
	require.Equal(t, 2, len(all))
	assert.Equal(t, []int64{2, 0}, []int64{all[0].Pauses, all[1].Pauses})
	assert.Equal(t, 5*time.Millisecond, all[0].Paused)
	assert.Equal(t, 3*time.Millisecond, all[0].LongestPause)
}

// What was counted while nobody sampled belongs to no second.
func TestHistoryAfterARestartHasNothingOfBefore(t *testing.T) {
	first := manually(t)
	requestTotals.CountResponse(http.StatusOK)
	first.loop.sample(time.Now())
	first.holder.Release()

	requestTotals.CountResponse(http.StatusOK)
	second := manually(t)
	second.history.add(sampleAt(time.Now().Add(2*time.Second), 0), time.Second)
	all := second.history.Seconds(time.Now().Add(time.Minute))
	require.Equal(t, 1, len(all))
	assert.Equal(t, [page.ResponseClasses]int64{}, all[0].Responses)
}

func TestWindowOfTheHistoryIsThatOfTheDiagnosis(t *testing.T) {
	i := manually(t)
	w := &diagnosis.Window{At: time.Now(), Length: 10 * time.Second, Processors: 2, CPUs: 1.5, CPU: number.Known(0.5), Descriptors: number.Known(12)}
	w.Load[diagnosis.GC], w.Load[diagnosis.Descriptors] = number.Known(0.75), number.Known(0.1)
	i.publish(w)
	all := i.history.Windows(time.Now())
	require.Equal(t, 1, len(all))
	got := all[0]
	assert.True(t, w.At.Equal(got.At.Time()))
	assert.Equal(t, 10*time.Second, got.Length)
	assert.Equal(t, "none", got.Verdict.String())
	assert.Equal(t, page.Number(2), got.Processors)
	assert.Equal(t, page.Number(1.5), got.CPUs)
	assert.Equal(t, page.Number(0.5), got.CPU)
	assert.Equal(t, page.Number(12), got.Descriptors)
	for n, cause := range slices.Collect(diagnosis.All()) {
		if load, measured := w.Load[cause].Get(); measured {
			assert.Equal(t, page.Number(load), got.Load[n], cause)
		} else {
			assert.NotEqual(t, got.Load[n], got.Load[n], "%s is not a number", cause)
		}
	}
	assert.Positive(t, float64(got.Memory))
	assert.Positive(t, float64(got.Threads))
}

// unreadable is a process of which nothing can be read.
type unreadable struct{}

func (unreadable) close()                                     {}
func (unreadable) cpuTime() (user, system float64, err error) { return 0, 0, os.ErrPermission }
func (unreadable) residentMemory() (int64, error)             { return 0, os.ErrPermission }
func (unreadable) threads() (int64, error)                    { panic("no threads") }
func (unreadable) openDescriptors() (int64, error)            { return 0, os.ErrPermission }

func TestAPanicOfASourceDoesNotReachTheVerdict(t *testing.T) {
	i := manually(t)
	i.history.process = unreadable{}
	i.publish(&diagnosis.Window{At: time.Now(), Length: time.Second})
	assert.Equal(t, CauseNone, Diagnose().Verdict)
	assert.Equal(t, 1, len(i.logged("no threads")))
}

func TestNilHistoryKeepsNothing(t *testing.T) {
	var h *history
	h.begin(time.Now())
	h.add(new(diagnosis.Sample), time.Second)
	h.pause(1)
	h.addWindow(new(diagnosis.Window), diagnosis.None)
}

func TestHandlerWhileNothingObserves(t *testing.T) {
	document := shown(t)
	assert.Contains(t, document["summary"], "observer.Start")
	assert.Equal(t, "", document["verdict"])
	assert.Equal(t, 0.0, document["window_seconds"])
	assert.Equal(t, []any{}, document["history"].(map[string]any)["seconds"])

	answer := httptest.NewRecorder()
	Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, http.StatusOK, answer.Code)
}

func TestHandlerShowsTheDiagnosis(t *testing.T) {
	directory := t.TempDir()
	folder := filepath.Join(directory, "20261129T140000.000000Z-gc-1")
	require.NoError(t, os.Mkdir(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "diagnosis.json"), []byte("{}"), 0o644))
	i := manually(t, WithCapture(directory))
	end := Requests().Begin()
	defer end()
	for range 2 {
		i.publish(windowWith(map[diagnosis.Cause]float64{diagnosis.Lock: 9}))
	}
	i.capture.writing.Wait()
	document := shown(t)
	encoded, err := json.Marshal(Diagnose())
	require.NoError(t, err)
	var diagnosed map[string]any
	require.NoError(t, json.Unmarshal(encoded, &diagnosed))
	for name, value := range diagnosed {
		assert.Equal(t, value, document[name], name)
	}
	assert.Equal(t, "lock", document["verdict"])
	history := document["history"].(map[string]any)
	assert.Equal(t, 2, len(history["windows"].([]any)))
	assert.Equal(t, 9.0, history["windows"].([]any)[0].(map[string]any)["load"].(map[string]any)["lock"])
	captures := document["captures"].([]any)
	assert.Equal(t, "20261129T140000.000000Z-gc-1", captures[len(captures)-1].(map[string]any)["name"])
	assert.Equal(t, len(slices.Collect(diagnosis.All())), len(document["causes"].([]any)))
}

func TestStreamOfThePageEndsWithTheObserver(t *testing.T) {
	i := manually(t)
	server := httptest.NewServer(Handler())
	defer server.Close()
	answer, err := http.Get(server.URL + "?format=events")
	require.NoError(t, err)
	defer answer.Body.Close()
	i.holder.Release()
	_, err = io.Copy(io.Discard, answer.Body)
	assert.NoError(t, err, "the body ends")
}

func TestHandlersAreOne(t *testing.T) {
	assert.Same(t, Handler(), Handler())
	assert.Same(t, Handler(), Handler(nil, WithHosts(), WithHosts("")))
	assert.NotSame(t, Handler(), Handler(WithHosts("ops.example.com")))
}

func TestH75NamesOfTheOption(t *testing.T) {
	plain, named := httptest.NewServer(Handler()), httptest.NewServer(Handler(nil, WithHosts("a.example.com", ""), WithHosts("ops.example.com")))
	defer plain.Close()
	defer named.Close()
	status := func(server *httptest.Server, host string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/?format=json", nil)
		require.NoError(t, err)
		request.Host = host
		answer, err := server.Client().Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	assert.Equal(t, http.StatusForbidden, status(plain, "ops.example.com"))
	assert.Equal(t, http.StatusOK, status(plain, "localhost"))
	assert.Equal(t, http.StatusOK, status(named, "ops.example.com"))
	assert.Equal(t, http.StatusOK, status(named, "a.example.com"))
	assert.Equal(t, http.StatusForbidden, status(named, "evil.example.com"))
}

func TestProcessWithoutArgumentsHasAName(t *testing.T) {
	defer func(before []string) { os.Args = before }(os.Args)
	os.Args = nil
	assert.NotEmpty(t, processName())
}
