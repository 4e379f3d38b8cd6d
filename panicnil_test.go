package observer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
)

// nilEnding is how a client saw one request end, and what was counted of it.
type nilEnding struct {
	Status     int
	Body       string
	Error      bool
	Exceptions int64
	Responses  map[int]int64
	InFlight   int64
}

// nilEndings are the ways of a handler to end without returning and without a
// value.
var nilEndings = map[string]http.HandlerFunc{
	"panic": func(http.ResponseWriter, *http.Request) { panic(nil) },
	"panic after the head": func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "some")
		w.(http.Flusher).Flush()
		panic(nil)
	},
	"Goexit": func(http.ResponseWriter, *http.Request) { runtime.Goexit() },
	"Goexit after the head": func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "some")
		w.(http.Flusher).Flush()
		runtime.Goexit()
	},
	"Goexit while a panic unwinds": func(http.ResponseWriter, *http.Request) {
		defer runtime.Goexit()
		panic("stopped by the Goexit")
	},
	"recovered": func(w http.ResponseWriter, _ *http.Request) {
		defer func() { _ = recover() }()
		panic(nil)
	},
}

func init() {
	observer.ChildModes["end with nil"] = func() error {
		o := observer.Start(context.Background(), "test", observer.WithMeterProvider(sdkmetric.NewMeterProvider()))
		defer o.Stop()
		endings := make(map[string]nilEnding)
		for _, protocol := range protocols {
			for name, handler := range nilEndings {
				for with, h := range map[string]http.Handler{"bare": handler, "observed": observer.Middleware(handler)} {
					ending, err := endWithNil(protocol, h)
					if err != nil {
						return err
					}
					endings[protocol+"/"+name+"/"+with] = ending
				}
			}
		}
		return json.NewEncoder(os.Stdout).Encode(endings)
	}
}

func endWithNil(protocol string, handler http.Handler) (nilEnding, error) {
	ended := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		handler.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if s.EnableHTTP2 = protocol == http2Protocol; s.EnableHTTP2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	defer s.Close()
	before := observer.Requests().Counts()
	response, err := s.Client().Post(s.URL, "", nil) // a GET would be sent again
	ending := nilEnding{Error: err != nil}
	if err == nil {
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		ending.Status, ending.Body, ending.Error = response.StatusCode, string(body), err != nil
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		return ending, errors.New("the handler has not ended")
	}
	now := observer.Requests().Counts()
	ending.Exceptions = now.UnhandledExceptions - before.UnhandledExceptions
	ending.Responses = grown(before.Responses, now.Responses)
	ending.InFlight = now.InFlight - before.InFlight
	return ending, nil
}

func TestH59PanicWithNilAsItWas(t *testing.T) {
	output, err := observer.Child(t, "end with nil", "GODEBUG=panicnil=1").Output()
	require.NoError(t, err)
	var endings map[string]nilEnding
	require.NoError(t, json.Unmarshal(output, &endings), "%s", output)
	for _, protocol := range protocols {
		for name, want := range map[string]struct {
			exceptions int64
			responses  map[int]int64
		}{
			"panic":                        {1, nil},
			"panic after the head":         {1, statuses{200: 1}},
			"Goexit":                       {0, nil},
			"Goexit after the head":        {0, statuses{200: 1}},
			"Goexit while a panic unwinds": {0, nil},
			"recovered":                    {0, statuses{200: 1}},
		} {
			t.Run(fmt.Sprint(protocol, "/", name), func(t *testing.T) {
				bare, observed := endings[protocol+"/"+name+"/bare"], endings[protocol+"/"+name+"/observed"]
				assert.Equal(t, name != "recovered", bare.Error)
				got := observed
				got.Exceptions, got.Responses = 0, nil
				assert.Equal(t, bare, got, "of what the client sees")
				assert.Equal(t, want.exceptions, observed.Exceptions)
				assert.Equal(t, want.responses, observed.Responses)
				assert.Zero(t, observed.InFlight)
			})
		}
	}
}
