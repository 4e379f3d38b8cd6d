package observer

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The table in DIAGNOSIS.md is what people read in place of rules.go.
func TestDiagnosisTableHasTheRules(t *testing.T) {
	text, err := os.ReadFile("docs/DIAGNOSIS.md")
	require.NoError(t, err)
	type row struct{ cause, condition string }
	var documented []row
	for _, columns := range regexp.MustCompile("(?m)^\\| \\d+ \\| `(\\w+)` \\| (.*?) \\| .*? \\|$").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, row{columns[1], columns[2]})
	}
	var want []row
	for _, r := range rules {
		want = append(want, row{string(r.cause), r.condition})
	}
	// Unknown is what is left when no rule holds.
	unknown := row{string(CauseUnknown), "no rule above holds, and goroutines woke up late, by more than 20 ms each time, for at least 0.1 of the window"}
	assert.Equal(t, append(want, unknown), documented)
	assert.Equal(t, 20.0, float64(lagAllowance.Milliseconds()), "ms of lag in the row of unknown")
	assert.Equal(t, 0.1, lagAtLeast, "the share in the row of unknown")
}

// What to do stands in another table, with a row for each verdict.
func TestDiagnosisExplainsEveryVerdict(t *testing.T) {
	text, err := os.ReadFile("docs/DIAGNOSIS.md")
	require.NoError(t, err)
	for _, cause := range append(causes(), CauseNone, CauseUnknown) {
		assert.Regexp(t, "(?m)^\\| `"+string(cause)+"` \\| .* \\| .* \\|$", string(text))
	}
}
