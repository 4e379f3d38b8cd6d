package main

//lint:file-ignore SA1019 Every Grafana imports the classic form of a dashboard, only the newest the one that is preferred to it.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"github.com/gym-observer/observer/internal/catalogue"
)

// selection is what the variables of the dashboard select.
const selection = `job=~"$job", instance=~"$instance"`

// height of every panel, in units of the grid.
const height = 9

var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// dashboardFile returns the dashboard as Grafana imports it.
func dashboardFile(names names, ending string) ([]byte, error) {
	title := "Observer: what is slow"
	if ending != "" {
		title += " (" + strings.ReplaceAll(ending[1:], "-", " ") + ")"
	}
	board := dashboard.NewDashboardBuilder(title).
		Uid("gym-observer"+ending).
		Description("What slows these processes down, as github.com/gym-observer/observer measures it. Read it from the top: the verdict, what everything waits for, then the signal that the verdict names.").
		Tags([]string{"gym", "observer"}).
		Timezone("browser").
		Time("now-1h", "now").
		Refresh("30s").
		Tooltip(dashboard.DashboardCursorSyncCrosshair)
	if err := addVariables(board, names); err != nil {
		return nil, err
	}
	id := uint32(0)
	next := func() uint32 { id++; return id }
	for _, row := range rows {
		board.WithRow(dashboard.NewRowBuilder(row.title).Id(next()))
		for _, p := range row.panels {
			targets, err := p.targets(names)
			if err != nil {
				return nil, fmt.Errorf("panel %s: %w", p.title, err)
			}
			drawn, err := p.drawn.panel(p).Build()
			if err != nil {
				return nil, fmt.Errorf("panel %s: %w", p.title, err)
			}
			drawn.Id, drawn.Title, drawn.Description = cog.ToPtr(next()), &p.title, cog.ToPtr(p.description())
			drawn.Datasource, drawn.Targets = &source, targets
			drawn.GridPos = &dashboard.GridPos{W: p.width, H: height}
			board.WithPanel(ready{drawn})
		}
	}
	return encode(board)
}

// ready is a panel that its builder has left.
type ready struct{ panel dashboard.Panel }

func (r ready) Build() (dashboard.Panel, error) { return r.panel, nil }

func encode(board *dashboard.DashboardBuilder) ([]byte, error) {
	whole, err := board.Build()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // expressions have < and >
	encoder.SetIndent("", "  ")
	err = encoder.Encode(whole)
	return text.Bytes(), err
}

// addVariables adds the choices above the panels. The metric that they look at
// is one that every process of this package exports, the Python ones too.
func addVariables(board *dashboard.DashboardBuilder, names names) error {
	const every = "gym.gc.collections_total"
	jobs, err := names.translate("label_values(<"+every+">, job)", "")
	if err != nil {
		return err
	}
	instances, err := names.translate("label_values(<"+every+">, instance)", `job=~"$job"`)
	if err != nil {
		return err
	}
	board.WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"))
	// Grafana writes All out as the list of the values. For jobs that is as it
	// should be: others export process.cpu.time, too. Instances can be hundreds,
	// each with a UUID for its name, and the job says already whose they are.
	board.WithVariable(choice("job", "Job", jobs))
	board.WithVariable(choice("instance", "Instance", instances).AllValue(".*"))
	return nil
}

func choice(name, label, query string) *dashboard.QueryVariableBuilder {
	all := dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}}
	shown := dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}}
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Query(dashboard.StringOrMap{String: &query}).
		Definition(query).
		Datasource(source).
		Multi(true).
		IncludeAll(true).
		Current(dashboard.VariableOption{Selected: cog.ToPtr(true), Text: shown, Value: all}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc)
}

// description tells what the catalogue says of each signal in the panel, once.
func (p panel) description() string {
	var read []catalogue.Signal
	seen := make(map[string]bool)
	for _, q := range p.queries {
		for _, s := range q.expr.signals() {
			if !seen[s.Name] {
				seen[s.Name] = true
				read = append(read, s)
			}
		}
	}
	var text []string
	if p.note != "" {
		text = append(text, p.note)
	}
	for _, s := range read {
		text = append(text, fmt.Sprintf("`%s`: %s\n%s", s.Name, s.Description, s.Advice))
	}
	return strings.Join(text, "\n\n")
}

func (p panel) targets(names names) ([]variants.Dataquery, error) {
	var targets []variants.Dataquery
	for i, q := range p.queries {
		text, err := names.translate(q.expr, selection)
		if err != nil {
			return nil, err
		}
		target, err := p.drawn.form(prometheus.NewDataqueryBuilder()).
			RefId(string(rune('A' + i))).
			Datasource(source).
			EditorMode(prometheus.QueryEditorModeCode).
			LegendFormat(q.legend).
			Expr(text).
			Build()
		if err != nil {
			return nil, err
		}
		targets = append(targets, target)
	}
	return targets, nil
}

// drawing is a kind of picture, and the form in which it needs its data.
type drawing struct {
	panel func(panel) cog.Builder[dashboard.Panel]
	form  func(*prometheus.DataqueryBuilder) *prometheus.DataqueryBuilder
}

var (
	lines    = drawing{drawLines, (*prometheus.DataqueryBuilder).Range}
	stack    = drawing{drawStack, (*prometheus.DataqueryBuilder).Range}
	heat     = drawing{drawHeat, buckets}
	timeline = drawing{drawTimeline, (*prometheus.DataqueryBuilder).Range}
	bars     = drawing{drawBars, (*prometheus.DataqueryBuilder).Instant}
)

func buckets(q *prometheus.DataqueryBuilder) *prometheus.DataqueryBuilder {
	return q.Range().Format(prometheus.PromQueryFormatHeatmap)
}

func drawLines(p panel) cog.Builder[dashboard.Panel] { return overTime(p) }

// drawStack adds the lines up, all but that of the processors.
func drawStack(p panel) cog.Builder[dashboard.Panel] {
	return overTime(p).
		FillOpacity(40).
		LineWidth(0).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A")).
		OverrideByName(processors, []dashboard.DynamicConfigValue{
			{Id: "custom.stacking", Value: map[string]string{"mode": "none"}},
			{Id: "custom.fillOpacity", Value: 0},
			{Id: "custom.lineWidth", Value: 2},
		})
}

func overTime(p panel) *timeseries.PanelBuilder {
	return timeseries.NewPanelBuilder().
		Unit(p.unit).
		Min(0).
		ShowPoints(common.VisibilityModeNever).
		Legend(legend(true)).
		Tooltip(tooltip())
}

// drawHeat has one row a bucket: Prometheus has counted them, Grafana must not.
func drawHeat(p panel) cog.Builder[dashboard.Panel] {
	return heatmap.NewPanelBuilder().
		Calculate(false).
		RowsFrame(heatmap.NewRowsHeatmapOptionsBuilder().Layout(common.HeatmapCellLayoutAuto)).
		YAxis(heatmap.NewYAxisConfigBuilder().Unit(p.unit)).
		Color(heatmap.NewHeatmapColorOptionsBuilder().
			Mode(heatmap.HeatmapColorModeScheme).
			Scheme("Oranges").
			Fill("dark-orange").
			Exponent(0.5).
			Steps(64)).
		Tooltip(heatmap.NewHeatmapTooltipBuilder().Mode(common.TooltipDisplayModeSingle).YHistogram(true)).
		// A bucket that nothing fell into has no cell.
		FilterValues(heatmap.NewFilterValueRangeBuilder().Le(1e-9))
}

// drawTimeline colours the stretches for which a cause had the verdict.
func drawTimeline(p panel) cog.Builder[dashboard.Panel] {
	return statetimeline.NewPanelBuilder().
		Unit(p.unit).
		Decimals(2).
		ShowValue(common.VisibilityModeNever).
		MergeValues(true).
		RowHeight(0.9).
		Tooltip(tooltip()).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds)).
		Thresholds(steps("transparent", step{0.05, "yellow"}, step{0.5, "red"})).
		Legend(legend(false))
}

func drawBars(p panel) cog.Builder[dashboard.Panel] {
	return bargauge.NewPanelBuilder().
		Unit(p.unit).
		Decimals(0).
		Min(0).
		Orientation(common.VizOrientationHorizontal).
		DisplayMode(common.BarGaugeDisplayModeBasic).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Values(false).Calcs([]string{"lastNotNull"})).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds)).
		Thresholds(steps("green", step{60, "yellow"}, step{300, "red"}))
}

// step is a colour from a value upwards.
type step struct {
	from   float64
	colour string
}

func steps(base string, above ...step) *dashboard.ThresholdsConfigBuilder {
	all := []dashboard.Threshold{{Color: base}}
	for _, s := range above {
		all = append(all, dashboard.Threshold{Value: &s.from, Color: s.colour})
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(all)
}

func legend(shown bool) *common.VizLegendOptionsBuilder {
	return common.NewVizLegendOptionsBuilder().
		ShowLegend(shown).
		DisplayMode(common.LegendDisplayModeList).
		Placement(common.LegendPlacementBottom)
}

func tooltip() *common.VizTooltipOptionsBuilder {
	return common.NewVizTooltipOptionsBuilder().
		Mode(common.TooltipDisplayModeMulti).
		Sort(common.SortOrderDescending)
}
