// Command dashboards writes the Grafana dashboards and the Prometheus alerts in
// the repository's folder dashboards from the catalogue of signals. It is a
// module of its own, so that what it needs never enters the library's.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/otlptranslator"
)

// directory is where the files are, as go generate and go test run.
const directory = "../../dashboards"

// strategies are the translations for which there are files, and what their
// file names end in.
var strategies = map[otlptranslator.TranslationStrategyOption]string{
	otlptranslator.UnderscoreEscapingWithSuffixes:    "",
	otlptranslator.UnderscoreEscapingWithoutSuffixes: "-without-suffixes",
}

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write() error {
	files, err := generate()
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(directory, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the files by their names.
func generate() (map[string][]byte, error) {
	files := make(map[string][]byte)
	for strategy, ending := range strategies {
		names, err := namesAs(strategy)
		if err != nil {
			return nil, err
		}
		grafana, alerts := "grafana"+ending+".json", "alerts"+ending+".yaml"
		if files[grafana], err = dashboardFile(names, ending); err != nil {
			return nil, fmt.Errorf("%s: %w", grafana, err)
		}
		if files[alerts], err = alertsFile(names); err != nil {
			return nil, fmt.Errorf("%s: %w", alerts, err)
		}
	}
	return files, nil
}
