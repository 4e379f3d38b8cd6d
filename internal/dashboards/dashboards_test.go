package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/catalogue"
)

func TestFilesAreThoseOfTheCatalogue(t *testing.T) {
	files, err := generate()
	require.NoError(t, err)
	for name, want := range files {
		have, err := os.ReadFile(filepath.Join(directory, name))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(have), "%s has drifted from the catalogue: go generate, in the repository's root", name)
	}
}

// grafana is what a dashboard must have, whatever made it.
type grafana struct {
	UID           string `json:"uid"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []struct {
			Name, Type, Query string
			Multi, IncludeAll bool
			Datasource        *datasource
		}
	}
	Panels []grafanaPanel
}

type datasource struct{ Type, UID string }

type grafanaPanel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               datasource
	Targets                  []struct {
		RefID, Expr, LegendFormat string
		Datasource                datasource
	}
}

func dashboards(t *testing.T) map[string]grafana {
	files, err := generate()
	require.NoError(t, err)
	boards := make(map[string]grafana)
	for name, text := range files {
		if filepath.Ext(name) == ".json" {
			var board grafana
			require.NoError(t, json.Unmarshal(text, &board), name)
			boards[name] = board
		}
	}
	return boards
}

func TestPanelsAreWhole(t *testing.T) {
	chosen := datasource{"prometheus", "${datasource}"}
	for name, board := range dashboards(t) {
		assert.NotEmpty(t, board.UID)
		assert.GreaterOrEqual(t, board.SchemaVersion, 39, "Grafana 11 and later read it without a migration")
		ids := make(map[int]bool)
		for _, p := range board.Panels {
			assert.False(t, ids[p.ID], "%s: %s has the id %d of another", name, p.Title, p.ID)
			ids[p.ID] = true
			assert.NotEmpty(t, p.Title)
			if p.Type == "row" {
				continue
			}
			assert.Equal(t, chosen, p.Datasource, p.Title)
			assert.NotEmpty(t, p.Description, p.Title)
			assert.NotEmpty(t, p.Targets, p.Title)
			references := make(map[string]bool)
			for _, target := range p.Targets {
				assert.Equal(t, chosen, target.Datasource, p.Title)
				assert.NotEmpty(t, target.LegendFormat, p.Title)
				assert.Contains(t, target.Expr, selection, p.Title)
				assert.NotContains(t, target.Expr, "<gym", p.Title)
				assert.False(t, references[target.RefID], "%s has two targets %s", p.Title, target.RefID)
				references[target.RefID] = true
			}
		}
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	for name, board := range dashboards(t) {
		taken := make(map[[2]int]string)
		for _, p := range board.Panels {
			assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					require.Empty(t, taken[at], "%s: %s at %v", name, p.Title, at)
					taken[at] = p.Title
				}
			}
		}
	}
}

func TestVariablesChooseSourceJobAndInstance(t *testing.T) {
	for name, board := range dashboards(t) {
		variables := board.Templating.List
		require.Len(t, variables, 3, name)
		assert.Equal(t, "datasource", variables[0].Type)
		assert.Equal(t, "prometheus", variables[0].Query)
		assert.Equal(t, "label_values(gym_gc_collections_total, job)", variables[1].Query)
		assert.Equal(t, `label_values(gym_gc_collections_total{job=~"$job"}, instance)`, variables[2].Query)
		for _, v := range variables[1:] {
			assert.True(t, v.Multi && v.IncludeAll, v.Name)
		}
	}
}

func TestEverySignalIsOnTheDashboard(t *testing.T) {
	shown := map[string]bool{
		"process.open_file_descriptor.count": true, // as process.unix.file_descriptor.count, its newer name
	}
	for _, row := range rows {
		for _, p := range row.panels {
			for _, q := range p.queries {
				for _, s := range q.expr.signals() {
					shown[s.Name] = true
				}
			}
		}
	}
	for _, s := range catalogue.Signals {
		assert.True(t, shown[s.Name], "no panel shows %s", s.Name)
	}
}

func TestDescriptionsAreTheCatalogues(t *testing.T) {
	for name, board := range dashboards(t) {
		for _, p := range board.Panels {
			for _, s := range catalogue.Signals {
				if strings.Contains(p.Description, "`"+s.Name+"`") {
					assert.Contains(t, p.Description, s.Description, name)
					assert.Contains(t, p.Description, s.Advice, name)
				}
			}
		}
	}
}

func TestUnknownSignalsAreRefused(t *testing.T) {
	_, err := names{}.translate("rate(<gym.nothing>[5m])", "")
	assert.ErrorContains(t, err, "gym.nothing")
}

func TestReadmeNamesMetricsThatExist(t *testing.T) {
	known := make(map[string]bool)
	for strategy := range strategies {
		translated, err := namesAs(strategy)
		require.NoError(t, err)
		for _, name := range translated {
			known[name] = true
		}
	}
	text, err := os.ReadFile(filepath.Join(directory, "README.md"))
	require.NoError(t, err)
	found := series.FindAllString(string(text), -1)
	require.NotEmpty(t, found)
	for _, name := range found {
		assert.True(t, known[strings.TrimSuffix(name, "_bucket")], name)
	}
	for _, a := range alerts {
		assert.Contains(t, string(text), "`"+a.name+"`")
	}
}
