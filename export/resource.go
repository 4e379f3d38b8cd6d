package export

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/gym-observer/observer/internal/env"
)

const defaultServiceName = "nemo-gym"

// instanceID tells this process from the other instances of its service. It is
// one for the process's life, so that a Stop and a Start do not look like a restart.
var instanceID = sync.OnceValue(uuid.NewString)

// newResource describes this process: the environment's attributes, and over
// them what is computed here. What is only detected gives way to the environment:
// in a container the host's name is the pod's, and whoever names the node means
// it. The process id is not one of these, although it is read, too: processes
// inherit the environment of another, whose id it would be.
func newResource(ctx context.Context, loop string, logger *slog.Logger) (*resource.Resource, error) {
	variable := env.Standard("OTEL_RESOURCE_ATTRIBUTES")
	given, err := parseAttributes(variable.Text)
	if err != nil {
		warn(logger, "observer: a part of a setting cannot be used, the rest is", fmt.Errorf("%s: %w", variable.Name, err))
	}
	group := serviceGroup(given)
	computed := []attribute.KeyValue{
		semconv.ServiceName(serviceName(group, loop, logger)),
		attribute.String("nemo.gym.service_group", group),
		semconv.ProcessPID(os.Getpid()),
	}
	if loop != "" {
		computed = append(computed, attribute.String("nemo.gym.server.name", loop))
	}
	if id := env.Gym("RUN_ID"); id.Set() {
		computed = append(computed, attribute.String("nemo.run.id", id.Text))
	}
	if host, err := os.Hostname(); err == nil && given[semconv.HostNameKey] == "" {
		computed = append(computed, semconv.HostName(host))
	}
	if given[semconv.ServiceInstanceIDKey] == "" {
		computed = append(computed, semconv.ServiceInstanceID(instanceID()))
	}

	var fromEnv []attribute.KeyValue
	for key, value := range given {
		fromEnv = append(fromEnv, key.String(value))
	}
	return resource.New(ctx, // the later ones win
		resource.WithAttributes(valid(fromEnv)...),
		resource.WithTelemetrySDK(),
		resource.WithAttributes(valid(computed)...),
	)
}

// serviceGroup returns the name that the servers of one deployment share.
func serviceGroup(given map[attribute.Key]string) string {
	if name := env.Standard("OTEL_SERVICE_NAME"); name.Set() {
		return name.Text
	}
	if name := given[semconv.ServiceNameKey]; name != "" {
		return name
	}
	return defaultServiceName
}

// serviceName returns the group with the loop appended, unless that is switched off.
func serviceName(group, loop string, logger *slog.Logger) string {
	perServer, err := env.Gym("SERVICE_NAME_PER_SERVER").Bool(true)
	if err != nil {
		warn(logger, unusable, err)
	}
	if !perServer || loop == "" {
		return group
	}
	return group + "/" + loop
}

// parseAttributes reads key=value pairs, separated by commas, with the values
// percent-encoded. It returns all that it can use, beside an error that names the
// first pair that is malformed. A value that cannot be decoded stands as it is,
// as the SDK has it, which reads the variable too.
func parseAttributes(text string) (map[attribute.Key]string, error) {
	attributes := make(map[attribute.Key]string)
	var malformed error
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue // a comma too many hurts nobody
		}
		key, encoded, found := strings.Cut(pair, "=")
		key, encoded = strings.TrimSpace(key), strings.TrimSpace(encoded)
		value, err := url.PathUnescape(encoded)
		if err != nil {
			value = encoded
		}
		if found && key != "" {
			attributes[attribute.Key(key)] = value
		}
		if malformed == nil && (err != nil || !found || key == "") {
			malformed = fmt.Errorf("%.100q is not key=value with a percent-encoded value", pair)
		}
	}
	return attributes, malformed
}

// valid replaces what is not UTF-8, in place: protobuf would refuse the whole export.
func valid(attributes []attribute.KeyValue) []attribute.KeyValue {
	for i, a := range attributes {
		attributes[i].Key = attribute.Key(strings.ToValidUTF8(string(a.Key), "\uFFFD"))
		if a.Value.Type() == attribute.STRING {
			attributes[i].Value = attribute.StringValue(strings.ToValidUTF8(a.Value.AsString(), "\uFFFD"))
		}
	}
	return attributes
}
