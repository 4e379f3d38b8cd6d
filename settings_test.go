package observer_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/testlog"
)

const (
	intervalVariable  = "NEMO_GYM_OTEL_EVENT_LOOP_SAMPLE_INTERVAL_SECONDS"
	taskCountVariable = "NEMO_GYM_OTEL_EVENT_LOOP_TASK_COUNT"
)

// settingsOf returns the settings in effect and what was logged.
func settingsOf(t *testing.T, options ...observer.Option) (observer.Settings, *testlog.Log) {
	t.Helper()
	log := new(testlog.Log)
	o := observer.Start(t.Context(), "test", append([]observer.Option{
		observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())), observer.WithLogger(log.Logger()),
	}, options...)...)
	defer o.Stop()
	require.NoError(t, o.Err())
	return o.Settings(), log
}

func TestDefaultSettings(t *testing.T) {
	o := observer.Start(t.Context(), "test", observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())))
	defer o.Stop()
	assert.Equal(t, observer.Settings{SampleInterval: 100 * time.Millisecond, Logger: slog.Default()}, o.Settings())
}

func TestSettingsOfWhatIsOff(t *testing.T) {
	o := observer.Start(t.Context(), "test", observer.WithSampleInterval(time.Second))
	defer o.Stop()
	require.ErrorIs(t, o.Err(), observer.ErrOff)
	assert.Equal(t, time.Second, o.Settings().SampleInterval)
}

func TestH40IntervalSettings(t *testing.T) {
	const standard = 100 * time.Millisecond
	for _, test := range []struct {
		name, value string
		want        time.Duration
		warned      bool
	}{
		{"empty", "", standard, false},
		{"blank", " \t ", standard, false},
		{"padded", "  0.25\t", 250 * time.Millisecond, false},
		{"least", "0.001", time.Millisecond, false},
		{"most", "3600", time.Hour, false},
		{"zero", "0", standard, true},
		{"negative", "-1", standard, true},
		{"text", "abc", standard, true},
		{"NaN", "NaN", standard, true},
		{"infinite", "Inf", standard, true},
		{"huge", "1e300", standard, true},
		{"larger than any float", "1e400", standard, true},
		{"below the least", "0.0009", standard, true},
		{"above the most", "3600.1", standard, true},
		{"a duration", "5s", standard, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(intervalVariable, test.value)
			settings, log := settingsOf(t)
			assert.Equal(t, test.want, settings.SampleInterval)
			if test.warned {
				assert.Len(t, log.Of("WARN"), 1)
				assert.Len(t, log.Of("WARN", intervalVariable, `"`+test.value+`"`), 1, "it names the variable and the value")
			} else {
				assert.Empty(t, log.Of("WARN"))
			}
		})
	}
}

// No busy loop: within a second, an interval that cannot be used gives the
// samples of the default.
func TestH40UnusableIntervalSamplesAtTheDefault(t *testing.T) {
	for _, value := range []string{"0", "-1", "NaN", "1e-300"} {
		t.Run(value, func(t *testing.T) {
			t.Setenv(intervalVariable, value)
			synctest.Test(t, func(t *testing.T) {
				reader := sdkmetric.NewManualReader()
				o := observer.Start(t.Context(), "test", observer.WithMeterProvider(providerOf(reader)), observer.WithLogger(slog.New(slog.DiscardHandler)))
				defer o.Stop()
				time.Sleep(10 * time.Second)
				assert.InDelta(t, 100, collect(t, reader).require(t, observer.EventLoopLagInstrument, ofLoop("test")), 21, "jittered by a fifth")
			})
		})
	}
}

func TestIntervalInCode(t *testing.T) {
	for _, test := range []struct {
		given, want time.Duration
		warned      bool
	}{
		{time.Millisecond, time.Millisecond, false},
		{time.Hour, time.Hour, false},
		{time.Millisecond - 1, 100 * time.Millisecond, true},
		{time.Hour + 1, 100 * time.Millisecond, true},
		{0, 100 * time.Millisecond, true},
		{-time.Second, 100 * time.Millisecond, true},
	} {
		t.Run(test.given.String(), func(t *testing.T) {
			t.Setenv(intervalVariable, "7") // code wins, also where it gives the default
			settings, log := settingsOf(t, observer.WithSampleInterval(test.given))
			assert.Equal(t, test.want, settings.SampleInterval)
			if test.warned {
				assert.Len(t, log.Of("WARN", test.given.String()), 1)
			} else {
				assert.Empty(t, log.Of("WARN"))
			}
		})
	}
}

func TestTaskCount(t *testing.T) {
	for _, test := range []struct {
		name, gym, lens string
		code            []observer.Option
		want, warned    bool
	}{
		{name: "unset"},
		{name: "on", gym: "YES", want: true},
		{name: "off", gym: "off"},
		{name: "Lens stands in", lens: "1", want: true},
		{name: "Gym before Lens", gym: "0", lens: "1"},
		{name: "blank Gym", gym: " ", lens: "true", want: true},
		{name: "unusable", gym: "maybe", lens: "true", warned: true},
		{name: "code over the environment", gym: "true", code: []observer.Option{observer.WithTaskCount(false)}},
		{name: "the last option", code: []observer.Option{observer.WithTaskCount(false), observer.WithTaskCount(true)}, want: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(taskCountVariable, test.gym)
			t.Setenv("NEMO_LENS_EVENT_LOOP_TASK_COUNT", test.lens)
			settings, log := settingsOf(t, test.code...)
			assert.Equal(t, test.want, settings.TaskCount)
			if test.warned {
				assert.Len(t, log.Of("WARN", taskCountVariable, test.gym), 1)
			} else {
				assert.Empty(t, log.Of("WARN"))
			}
		})
	}
}

// The exporter's interval is for package export to read.
func TestH41ExportIntervalDoesNotConcernTheSampler(t *testing.T) {
	for _, value := range []string{"100", "5s"} {
		t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", value)
		settings, log := settingsOf(t)
		assert.Equal(t, 100*time.Millisecond, settings.SampleInterval)
		assert.Empty(t, log.Of("WARN"))
	}
}

// everything turns telemetry on in each way there is.
func everything(opens *int) []observer.Option {
	return []observer.Option{
		observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())),
		observer.WithProvider(func(context.Context, string, observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
			*opens++
			return providerOf(sdkmetric.NewManualReader()), nil, nil
		}),
	}
}

func TestH42DisabledSDK(t *testing.T) {
	for _, test := range []struct {
		value string
		off   bool
	}{
		{"true", true}, {"TRUE", true}, {"True", true}, {"tRuE", true}, {" true ", true},
		{"false", false}, {"1", false}, {"yes", false}, {"on", false}, {"", false}, {" ", false}, {"truee", false},
	} {
		t.Run(test.value, func(t *testing.T) {
			t.Setenv("OTEL_SDK_DISABLED", test.value)
			opens := 0
			synctest.Test(t, func(t *testing.T) { // which finds any goroutine that is left
				o := observer.Start(t.Context(), "test", everything(&opens)...)
				if test.off {
					assert.ErrorIs(t, o.Err(), observer.ErrOff)
					assert.ErrorContains(t, o.Err(), "OTEL_SDK_DISABLED")
					assert.False(t, observes())
					return // without Stop: there is nothing to stop
				}
				assert.NoError(t, o.Err())
				o.Stop()

				// The other rules stay in force.
				t.Setenv("NEMO_GYM_OTEL_ENABLED", "false")
				o = observer.Start(t.Context(), "test", everything(&opens)...)
				assert.ErrorIs(t, o.Err(), observer.ErrOff)
			})
			assert.Zero(t, opens)
		})
	}
}

func TestOffSwitches(t *testing.T) {
	off := []string{"false", "FALSE", "0", "no", "off", " Off\t"}
	on := []string{"true", "TRUE", "1", "yes", "on", "", "  "}
	for _, test := range []struct {
		name        string
		environment map[string]string
		values      []string // of the variable that is empty in environment
		off         bool
	}{
		{"Gym's master switch", map[string]string{"NEMO_GYM_OTEL_ENABLED": ""}, off, true},
		{"Gym's master switch on", map[string]string{"NEMO_GYM_OTEL_ENABLED": ""}, on, false},
		{"Gym's metrics switch", map[string]string{"NEMO_GYM_OTEL_METRICS_ENABLED": ""}, off, true},
		{"Gym's metrics switch on", map[string]string{"NEMO_GYM_OTEL_METRICS_ENABLED": ""}, on, false},
		{"Lens's master switch", map[string]string{"NEMO_LENS_ENABLED": ""}, off, true},
		{"Lens's master switch on", map[string]string{"NEMO_LENS_ENABLED": ""}, on, false},
		{"Lens's metrics switch", map[string]string{"NEMO_LENS_METRICS_ENABLED": ""}, off, true},
		{"Lens's metrics switch on", map[string]string{"NEMO_LENS_METRICS_ENABLED": ""}, on, false},
		{"metrics off with the master switch on", map[string]string{"NEMO_GYM_OTEL_ENABLED": "true", "NEMO_GYM_OTEL_METRICS_ENABLED": ""}, off, true},
		{"Lens's metrics off with Gym's master switch on", map[string]string{"NEMO_GYM_OTEL_ENABLED": "true", "NEMO_LENS_METRICS_ENABLED": ""}, off, true},
		{"Lens's where Gym's is blank", map[string]string{"NEMO_GYM_OTEL_ENABLED": " ", "NEMO_LENS_ENABLED": ""}, off, true},
		{"Gym's on before Lens's", map[string]string{"NEMO_GYM_OTEL_ENABLED": "true", "NEMO_LENS_ENABLED": ""}, off, false},
		{"Gym's metrics on before Lens's", map[string]string{"NEMO_GYM_OTEL_METRICS_ENABLED": "true", "NEMO_LENS_METRICS_ENABLED": ""}, off, false},
		{"an SDK that is not disabled", map[string]string{"OTEL_SDK_DISABLED": "false", "NEMO_GYM_OTEL_ENABLED": ""}, off, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, value := range test.values {
				for variable, given := range test.environment {
					if given == "" {
						given = value
					}
					t.Setenv(variable, given)
				}
				opens := 0
				o := observer.Start(t.Context(), "test", everything(&opens)...)
				process, err := observer.Acquire(t.Context(), everything(&opens)...)
				if test.off {
					assert.ErrorIs(t, o.Err(), observer.ErrOff, "%q", value)
					assert.ErrorIs(t, err, observer.ErrOff, "%q", value)
				} else {
					assert.NoError(t, o.Err(), "%q", value)
					assert.NoError(t, err, "%q", value)
				}
				o.Stop()
				process.Release()
				assert.Zero(t, opens)
			}
		})
	}
}

func TestUnusableSwitchIsOneWarningAndTurnsNothingOff(t *testing.T) {
	for _, variable := range []string{"NEMO_GYM_OTEL_ENABLED", "NEMO_GYM_OTEL_METRICS_ENABLED", "NEMO_LENS_ENABLED", "NEMO_LENS_METRICS_ENABLED"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "perhaps")
			_, log := settingsOf(t)
			assert.Len(t, log.Of("WARN"), 1)
			assert.Len(t, log.Of("WARN", variable, `"perhaps"`), 1)
		})
	}
}
