package export

import (
	"os"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/gym-observer/observer/internal/otlptest"
)

func attributesOf(r *resource.Resource) map[string]any {
	attributes := make(map[string]any)
	for _, a := range r.Attributes() {
		attributes[string(a.Key)] = a.Value.AsInterface()
	}
	return attributes
}

func TestResourceDescribesTheProcess(t *testing.T) {
	otlptest.ClearEnvironment(t)
	t.Setenv("NEMO_GYM_OTEL_RUN_ID", " run-7 ")
	journal := otlptest.NewJournal()
	res, err := newResource(t.Context(), "server", journal.Logger)
	require.NoError(t, err)
	attributes := attributesOf(res)

	host, err := os.Hostname()
	require.NoError(t, err)
	id, _ := attributes["service.instance.id"].(string)
	parsed, err := uuid.Parse(id)
	require.NoError(t, err)
	assert.Equal(t, uuid.Version(4), parsed.Version())
	for _, ours := range []string{"telemetry.sdk.name", "telemetry.sdk.language", "telemetry.sdk.version"} {
		assert.Contains(t, attributes, ours)
		delete(attributes, ours)
	}
	assert.Equal(t, map[string]any{
		"service.name":           "nemo-gym/server",
		"service.instance.id":    id,
		"nemo.gym.service_group": "nemo-gym",
		"nemo.gym.server.name":   "server",
		"nemo.run.id":            "run-7",
		"host.name":              host,
		"process.pid":            int64(os.Getpid()),
	}, attributes)
	assert.Empty(t, journal.Lines())

	again, err := newResource(t.Context(), "server", journal.Logger)
	require.NoError(t, err)
	assert.Equal(t, id, attributesOf(again)["service.instance.id"], "one instance a process")
}

func TestServiceName(t *testing.T) {
	type variables map[string]string
	for _, test := range []struct {
		name        string
		environment variables
		loop        string
		service     string
		group       string
	}{
		{"default", nil, "server", "nemo-gym/server", "nemo-gym"},
		{"without a loop", nil, "", "nemo-gym", "nemo-gym"},
		{"named", variables{"OTEL_SERVICE_NAME": " judge "}, "server", "judge/server", "judge"},
		{"named in the attributes", variables{"OTEL_RESOURCE_ATTRIBUTES": "service.name=judge"}, "server", "judge/server", "judge"},
		{"named in both", variables{"OTEL_SERVICE_NAME": "judge", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other"}, "server", "judge/server", "judge"},
		{"named blank in the attributes", variables{"OTEL_RESOURCE_ATTRIBUTES": "service.name="}, "server", "nemo-gym/server", "nemo-gym"},
		{"one for all servers", variables{"NEMO_GYM_OTEL_SERVICE_NAME_PER_SERVER": "no"}, "server", "nemo-gym", "nemo-gym"},
		{"one for all servers, by Lens", variables{"NEMO_LENS_SERVICE_NAME_PER_SERVER": "0"}, "server", "nemo-gym", "nemo-gym"},
		{"one for all servers, in the attributes", variables{"NEMO_GYM_OTEL_SERVICE_NAME_PER_SERVER": "false", "OTEL_RESOURCE_ATTRIBUTES": "service.name=judge"}, "server", "judge", "judge"},
		{"a name for each", variables{"NEMO_GYM_OTEL_SERVICE_NAME_PER_SERVER": "TRUE", "OTEL_SERVICE_NAME": "judge"}, "driver", "judge/driver", "judge"},
	} {
		t.Run(test.name, func(t *testing.T) {
			otlptest.ClearEnvironment(t)
			for name, value := range test.environment {
				t.Setenv(name, value)
			}
			journal := otlptest.NewJournal()
			res, err := newResource(t.Context(), test.loop, journal.Logger)
			require.NoError(t, err)
			attributes := attributesOf(res)
			assert.Equal(t, test.service, attributes["service.name"])
			assert.Equal(t, test.group, attributes["nemo.gym.service_group"])
			if test.loop == "" {
				assert.NotContains(t, attributes, "nemo.gym.server.name")
			} else {
				assert.Equal(t, test.loop, attributes["nemo.gym.server.name"])
			}
			assert.NotContains(t, attributes, "nemo.run.id")
			assert.Empty(t, journal.Lines())
		})
	}
}

func TestUnusableServiceNameSwitchWarns(t *testing.T) {
	otlptest.ClearEnvironment(t)
	t.Setenv("NEMO_GYM_OTEL_SERVICE_NAME_PER_SERVER", "sometimes")
	journal := otlptest.NewJournal()
	res, err := newResource(t.Context(), "server", journal.Logger)
	require.NoError(t, err)
	assert.Equal(t, "nemo-gym/server", attributesOf(res)["service.name"])
	assert.Len(t, journal.Lines(), 1)
	assert.Len(t, journal.Lines("NEMO_GYM_OTEL_SERVICE_NAME_PER_SERVER", "sometimes"), 1)
}

func TestComputedAttributesHoldOverTheEnvironments(t *testing.T) {
	otlptest.ClearEnvironment(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab%2C2, service.instance.id=kept,"+
		"nemo.gym.service_group=x,nemo.gym.server.name=x,process.pid=x,telemetry.sdk.name=x,nemo.run.id=from-attributes")
	journal := otlptest.NewJournal()
	res, err := newResource(t.Context(), "server", journal.Logger)
	require.NoError(t, err)
	attributes := attributesOf(res)
	assert.Equal(t, "lab,2", attributes["deployment.environment.name"])
	assert.Equal(t, "kept", attributes["service.instance.id"])
	assert.Equal(t, "from-attributes", attributes["nemo.run.id"], "nothing is computed for it")
	for _, key := range []string{"nemo.gym.service_group", "nemo.gym.server.name", "process.pid", "telemetry.sdk.name"} {
		assert.NotEqual(t, "x", attributes[key], key)
	}
	assert.Empty(t, journal.Lines())

	t.Setenv("NEMO_GYM_OTEL_RUN_ID", "computed")
	res, err = newResource(t.Context(), "server", journal.Logger)
	require.NoError(t, err)
	assert.Equal(t, "computed", attributesOf(res)["nemo.run.id"])
}

func TestH80HostNameFromTheEnvironment(t *testing.T) {
	own, err := os.Hostname()
	require.NoError(t, err)
	for _, test := range []struct{ name, attributes, want string }{
		{"named", "host.name=node-7", "node-7"},
		{"encoded", "team=a, host.name = node%2D7", "node-7"},
		{"blank", "host.name=", own},
		{"malformed beside it", "oops,host.name=node-7", "node-7"},
		{"unset", "", own},
	} {
		t.Run(test.name, func(t *testing.T) {
			otlptest.ClearEnvironment(t)
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", test.attributes)
			res, err := newResource(t.Context(), "server", otlptest.NewJournal().Logger)
			require.NoError(t, err)
			assert.Equal(t, test.want, attributesOf(res)["host.name"])
		})
	}
}

func TestMalformedAttributesWarnOnceAndTheRestStands(t *testing.T) {
	for _, test := range []struct{ name, text, named string }{
		{"no value", "team=a,oops,zone=b", `oops`},
		{"no key", "team=a,=oops,zone=b", `=oops`},
		{"bad encoding", "team=a,share=100%,zone=b", `share=100%`},
		{"several", "oops,team=a,zone=b,again,=x", `oops`},
	} {
		t.Run(test.name, func(t *testing.T) {
			otlptest.ClearEnvironment(t)
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", test.text)
			journal := otlptest.NewJournal()
			res, err := newResource(t.Context(), "server", journal.Logger)
			require.NoError(t, err)
			attributes := attributesOf(res)
			assert.Equal(t, "a", attributes["team"])
			assert.Equal(t, "b", attributes["zone"])
			assert.Equal(t, "nemo-gym/server", attributes["service.name"])
			assert.Len(t, journal.Lines(), 1)
			assert.Len(t, journal.Lines("level=WARN", "OTEL_RESOURCE_ATTRIBUTES", test.named), 1)
		})
	}
}

func TestResourceIsValidUTF8(t *testing.T) {
	otlptest.ClearEnvironment(t)
	t.Setenv("OTEL_SERVICE_NAME", "judge\xff")
	t.Setenv("NEMO_GYM_OTEL_RUN_ID", "run\xfe")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=a%ff,z\xffne=b")
	res, err := newResource(t.Context(), "ser\xffver", otlptest.NewJournal().Logger)
	require.NoError(t, err)
	attributes := attributesOf(res)
	assert.Equal(t, "judge\uFFFD/ser\uFFFDver", attributes["service.name"])
	assert.Equal(t, "judge\uFFFD", attributes["nemo.gym.service_group"])
	assert.Equal(t, "ser\uFFFDver", attributes["nemo.gym.server.name"])
	assert.Equal(t, "run\uFFFD", attributes["nemo.run.id"])
	assert.Equal(t, "a\uFFFD", attributes["team"])
	assert.Equal(t, "b", attributes["z\uFFFDne"])
}

func FuzzParseAttributes(f *testing.F) {
	for _, text := range []string{"", "a=b", "a=b,c=d%2C", "a", "=b", "a=%", ",,", "a=b=c", "\xff=\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		attributes, err := parseAttributes(text)
		for key := range attributes {
			if key == "" {
				t.Errorf("%q gave an empty key", text)
			}
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%q gave an error of %d bytes", text, len(err.Error()))
		}
		for key, value := range attributes {
			made := valid([]attribute.KeyValue{key.String(value)})[0]
			if !utf8.ValidString(string(made.Key)) || !utf8.ValidString(made.Value.AsString()) {
				t.Errorf("%q gave %q=%q, which is not UTF-8", text, made.Key, made.Value.AsString())
			}
		}
	})
}
