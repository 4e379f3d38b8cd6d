package catalogue_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/catalogue"
)

func TestRowsAreWhole(t *testing.T) {
	names := make(map[string]bool)
	for _, s := range catalogue.Signals {
		t.Run(s.Name, func(t *testing.T) {
			assert.False(t, names[s.Name], "listed twice")
			names[s.Name] = true
			assert.NotEmpty(t, s.Unit)
			for what, sentence := range map[string]string{"description": s.Description, "advice": s.Advice} {
				assert.True(t, strings.HasSuffix(sentence, "."), "the %s is a sentence: %q", what, sentence)
			}
			assert.Equal(t, s.Kind == catalogue.Histogram, len(s.Boundaries) > 0)
			// The SDK answers a list that is not sorted with its own defaults, silently.
			assert.True(t, slices.IsSorted(s.Boundaries), "%v", s.Boundaries)
			assert.Len(t, slices.Compact(slices.Clone(s.Boundaries)), len(s.Boundaries))
		})
	}
}
