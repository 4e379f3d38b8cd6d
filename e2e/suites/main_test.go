package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/e2e/suites/suite"
)

// TestSuites runs net/http's own tests and three cheap suites, some four minutes
// on two cores. The command runs the others.
func TestSuites(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the tests of net/http and of three modules")
	}
	workshop, err := suite.Open(t.Context(), t.TempDir(), "../..", t.Logf)
	require.NoError(t, err)
	suites, unknown := suite.Named([]string{"cors", "chi", "gorilla-websocket", "net/http"})
	require.Empty(t, unknown)
	for _, s := range suites {
		t.Run(s.Name, func(t *testing.T) {
			results, err := workshop.Compare(t.Context(), s, suite.Modes)
			require.NoError(t, err)
			require.Len(t, results, len(s.Packages)*len(suite.Modes))
			for _, result := range results {
				t.Log(result)
				for _, chance := range result.Chance {
					t.Log("by chance: ", chance)
				}
				for _, difference := range result.Unlisted() {
					t.Errorf("%s\n%s", difference, difference.Output)
				}
				assert.Empty(t, result.Wrong)
				assert.NotZero(t, result.Pass)
			}
		})
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	_, err := compare(t.Context(), []string{"nobody's"}, "", "../..", t.TempDir())
	assert.ErrorContains(t, err, "nobody's")
	_, err = compare(t.Context(), nil, "everywhere", "../..", t.TempDir())
	assert.ErrorContains(t, err, "everywhere")
}
