package observer

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/diagnosis"
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
	for cause := diagnosis.None + 1; int(cause) < diagnosis.NumCauses; cause++ {
		want = append(want, row{cause.Name(), cause.Condition()})
	}
	assert.Equal(t, want, documented)
}

// What to do stands in another table, with a row for each verdict.
func TestDiagnosisExplainsEveryVerdict(t *testing.T) {
	text, err := os.ReadFile("docs/DIAGNOSIS.md")
	require.NoError(t, err)
	for cause := range diagnosis.Cause(diagnosis.NumCauses) {
		assert.Regexp(t, "(?m)^\\| `"+cause.Name()+"` \\| .* \\| .* \\|$", string(text))
	}
}
