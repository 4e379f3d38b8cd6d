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
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/env"
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

// shownHistory returns the rows of the page.
func shownHistory(t *testing.T) (seconds, windows []map[string]any) {
	t.Helper()
	rows := func(all any) (found []map[string]any) {
		for _, row := range all.([]any) {
			found = append(found, row.(map[string]any))
		}
		return found
	}
	history := shown(t)["history"].(map[string]any)
	return rows(history["seconds"]), rows(history["windows"])
}

// sampleHistory gives the history a sample of now, as if it were taken at a time.
func (m *manual) sampleHistory(at time.Time) {
	m.sampler.history.Add(m.sampleAt(at), time.Second)
}

func (m *manual) beginHistory(at time.Time) {
	m.sampler.history.Begin(m.sampleAt(at))
}

func (m *manual) sampleAt(at time.Time) *diagnosis.Sample {
	s := sampleAt(at, 0)
	s.Admissions, s.Waited = m.sampler.admitted()
	return s
}

func TestHistoryHasRoomForWhatIsMeasured(t *testing.T) {
	assert.Equal(t, page.LagBuckets, len(lagEdges)+1)
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

func TestHistoryCountsLagAsTheHistogramDoes(t *testing.T) {
	i := manually(t)
	now := time.Now()
	i.beginHistory(now)
	for n, lag := range []time.Duration{0, 50 * time.Microsecond, 50*time.Microsecond + 1, time.Millisecond, 3 * time.Millisecond, 5 * time.Second, time.Hour} {
		due := now.Add(time.Duration(n) * time.Millisecond)
		i.loop.Now = func() time.Time { return due.Add(lag) }
		i.loop.sample(due)
	}
	var want, got [page.LagBuckets]float64
	for bucket, n := range i.histogram(t, EventLoopLagInstrument).BucketCounts {
		want[bucket] = float64(n)
	}
	longest := 0.0
	seconds, _ := shownHistory(t)
	for _, s := range seconds {
		longest = max(longest, s["longest_lag_seconds"].(float64))
		for bucket, n := range s["lag"].([]any) {
			got[bucket] += n.(float64)
		}
	}
	assert.Equal(t, want, got)
	assert.Equal(t, 3600.0, longest)
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
	before := totals.driver.Counts()
	now := time.Now()
	i.beginHistory(now)
	for n := range 5 {
		for _, path := range []string{"/", "/", "/", "/moved", "/missing", "/missing", "/broken", "/strange"} {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
		}
		Driver().Offer(2)
		require.NoError(t, admission.Do(context.Background(), func(context.Context) error {
			PassOn()
			i.sampleHistory(now.Add(time.Duration(n)*time.Second + 500*time.Millisecond))
			return nil
		}))
		PassOn()
		i.sampleHistory(now.Add(time.Duration(n+1) * time.Second))
	}
	all, _ := shownHistory(t)
	require.Equal(t, 5, len(all))
	waited := 0.0
	for _, s := range all {
		assert.Equal(t, map[string]any{"1xx": 0.0, "2xx": 3.0, "3xx": 1.0, "4xx": 2.0, "5xx": 1.0, "other": 1.0}, s["responses"])
		assert.Equal(t, float64(totals.requests.inFlight()), s["in_flight"])
		driver := s["driver"].(map[string]any)
		assert.Equal(t, 2.0, driver["offered"])
		assert.Equal(t, 1.0, driver["admissions"])
		assert.Equal(t, float64(before.Active)+0.5, driver["active"], "active in one sample of two")
		waited += driver["waited_seconds"].(float64)
	}
	waits := i.histogram(t, DriverAdmissionInstrument)
	assert.EqualValues(t, 5, waits.Count)
	assert.InDelta(t, waits.Sum, 1000*waited, 1e-4, "milliseconds waited, as exported")
}

func TestHistoryCountsThePausesOfTheCollector(t *testing.T) {
	i := manually(t)
	now := time.Now()
	i.loop.sample(now) // what came before
	i.beginHistory(now)
	runtime.GC()
	i.loop.Now = func() time.Time { return now.Add(time.Second) }
	i.loop.sample(now.Add(time.Second))
	all, _ := shownHistory(t)
	require.Equal(t, 1, len(all))
	assert.GreaterOrEqual(t, all[0]["pauses"], 1.0)
	assert.Positive(t, all[0]["paused_seconds"])
	assert.LessOrEqual(t, all[0]["longest_pause_seconds"], all[0]["paused_seconds"])
}

// What was counted while nobody sampled belongs to no second.
func TestHistoryAfterARestartHasNothingOfBefore(t *testing.T) {
	first := manually(t)
	totals.requests.CountResponse(http.StatusOK)
	first.loop.sample(time.Now())
	first.holder.Release()

	totals.requests.CountResponse(http.StatusOK)
	second := manually(t)
	second.sampleHistory(time.Now().Add(2 * time.Second))
	all, _ := shownHistory(t)
	require.Equal(t, 1, len(all))
	for class, n := range all[0]["responses"].(map[string]any) {
		assert.Equal(t, 0.0, n, class)
	}
}

func TestWindowOfTheHistoryIsThatOfTheDiagnosis(t *testing.T) {
	i := manually(t)
	w := &diagnosis.Window{At: time.Now(), Length: 10 * time.Second, Processors: 2, CPUs: 1.5, CPU: number.Known(0.5), Descriptors: number.Known(12)}
	w.Load[diagnosis.GC], w.Load[diagnosis.Descriptors] = number.Known(0.75), number.Known(0.1)
	i.sampler.publish(w)
	_, all := shownHistory(t)
	require.Equal(t, 1, len(all))
	got := all[0]
	assert.Equal(t, "none", got["verdict"])
	assert.Equal(t, 12.0, got["descriptors"])
	assert.Equal(t, 0.75, got["load"].(map[string]any)["gc"])
	assert.Positive(t, got["memory_bytes"])
	assert.Positive(t, got["threads"])
	since, err := time.Parse(time.RFC3339Nano, shown(t)["verdict_since"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, w.At.Add(-w.Length), since, time.Millisecond)
}

// unreadable is a process of which nothing can be read.
type unreadable struct{}

func (unreadable) Close()                                     {}
func (unreadable) CPUTime() (user, system float64, err error) { return 0, 0, os.ErrPermission }
func (unreadable) ResidentMemory() (int64, error)             { return 0, os.ErrPermission }
func (unreadable) Threads() (int64, error)                    { panic("no threads") }
func (unreadable) OpenDescriptors() (int64, error)            { return 0, os.ErrPermission }

func TestAPanicOfASourceDoesNotReachTheVerdict(t *testing.T) {
	i := manually(t)
	i.sampler.windows.Process = unreadable{}
	i.sampler.publish(&diagnosis.Window{At: time.Now(), Length: time.Second})
	assert.Equal(t, CauseNone, Diagnose().Verdict)
	assert.Equal(t, 1, len(i.log.Of("no threads")))
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
		i.sampler.publish(windowWith(map[diagnosis.Cause]float64{diagnosis.Lock: 9, diagnosis.OutputWrite: 9}))
	}
	i.sampler.capture.Wait()
	document := shown(t)
	encoded, err := json.Marshal(Diagnose())
	require.NoError(t, err)
	var diagnosed map[string]any
	require.NoError(t, json.Unmarshal(encoded, &diagnosed))
	for name, value := range diagnosed {
		assert.Equal(t, value, document[name], name)
	}
	assert.Equal(t, "output_write", document["verdict"])
	assert.Equal(t, []any{"lock"}, document["also"])
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
	assert.NotEmpty(t, env.Program())
}

func TestNameOfAProcessTellsItFromOthersOfItsProgram(t *testing.T) {
	for _, test := range []struct {
		loops []*loop
		name  string
	}{
		{[]*loop{{name: "agent"}, {name: "writer"}}, "rollouts/agent"},
		{[]*loop{{name: "rollouts"}}, "rollouts"},
		{[]*loop{{name: ""}}, "rollouts"},
		{nil, "rollouts"},
	} {
		assert.Equal(t, test.name, nameOfProcess("rollouts", test.loops))
	}
}

func TestPageHasTheNameOfTheProcessAndEachFurtherCauseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Start(t.Context(), "page-name", WithMeterProvider(noop.NewMeterProvider()), WithSampleInterval(time.Hour))
		defer o.Stop()
		require.NoError(t, o.Err())
		synctest.Wait() // the sampler has opened its first window
		for range 2 {
			PublishWindow(10*time.Second, map[Cause]float64{CauseGC: 2, CauseAdmission: 20})
		}
		d, s := Diagnose(), pageSnapshot()
		require.NotEmpty(t, d.Also)
		assert.Len(t, s.Also, len(d.Also))
		assert.Equal(t, env.Program()+"/page-name", s.Process)
	})
}
