package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// everyCase has samples whose values differ, so that no difference of two is 0.
func everyCase() results {
	all := make(results)
	value := 1.0
	for _, f := range families() {
		for _, c := range f.cases {
			value *= 1.01
			all[[2]string{f.name, c.name}] = &series{samples: []sample{{value, 0, 0}}}
		}
	}
	return all
}

func TestTargetsNameCasesThatAreMeasured(t *testing.T) {
	all := everyCase()
	for _, target := range targets() {
		assert.Len(t, target.values(all), 1, target.what)
	}
}

func TestCasesOfAFamilyHaveDifferentNames(t *testing.T) {
	cases := 0
	for _, f := range families() {
		cases += len(f.cases)
	}
	assert.Len(t, everyCase(), cases)
}

func TestMedianAndItsInterval(t *testing.T) {
	var values []float64
	for i := range 40 {
		values = append(values, float64(40-i)) // 1 to 40, backwards
	}
	assert.Equal(t, 20.5, median(values))
	low, high := interval(values)
	assert.Equal(t, []float64{14, 27}, []float64{low, high}, "as tables of the binomial distribution have it for 40")
	low, high = interval([]float64{3, 1, 2})
	assert.Equal(t, []float64{1, 3}, []float64{low, high}, "all of too few values")
}

func TestARoundThatFailedCountsNowhere(t *testing.T) {
	all := results{
		{"f", "a"}: {samples: []sample{{3, 0, 0}, {math.NaN(), 0, 0}, {5, 0, 0}}},
		{"f", "b"}: {samples: []sample{{1, 0, 0}, {1, 0, 0}, {1, 0, 0}}},
	}
	assert.Equal(t, []float64{2, 4}, measured(added("f", "a", "b")(all)))
}

func TestNumbers(t *testing.T) {
	for value, text := range map[float64]string{
		0: "0", 1: "1", 160: "160", 0.2: "0.2", 0.985: "0.985", 12.34: "12.3", 123.4: "123", 40_000: "40,000", -1234567: "-1,234,567",
	} {
		assert.Equal(t, text, number(value))
	}
}

func TestTheTableGoesBetweenItsMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+tableBegins+"old\n"+tableEnds+"after\n"), 0o644))
	require.NoError(t, replaceTable(path, "new\n"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "before\n"+tableBegins+"\nnew\n"+tableEnds+"after\n", string(text))

	require.NoError(t, os.WriteFile(path, []byte("no mark"), 0o644))
	assert.Error(t, replaceTable(path, "new\n"))
}

func TestAnAnswerIsWholeWithItsPage(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Length: 2048\r\n\r\n"
	whole := head + string(page)
	assert.True(t, isWhole([]byte(whole)))
	for _, part := range []string{"", head[:10], head, whole[:len(whole)-16], whole[:len(whole)-1]} {
		assert.False(t, isWhole([]byte(part)), "%d bytes", len(part))
	}
}
