module github.com/gym-observer/observer/internal/dashboards

go 1.26.0

replace github.com/gym-observer/observer => ../..

require (
	github.com/grafana/grafana-foundation-sdk/go v0.0.22
	github.com/gym-observer/observer v0.0.0
	github.com/prometheus/otlptranslator v1.0.0
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5
)
