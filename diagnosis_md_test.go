package observer

import (
	"os"
	"regexp"
	"strings"
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

// On the page a cause without a colour of its own would be a band that cannot be
// told from another.
func TestEveryCauseHasAColourOnThePage(t *testing.T) {
	text, err := os.ReadFile("internal/page/page.css")
	require.NoError(t, err)
	light, dark, found := strings.Cut(string(text), "@media (prefers-color-scheme: dark)")
	require.True(t, found)
	for name, scheme := range map[string]string{"light": light, "dark": dark} {
		owners := make(map[string]string) // by colour
		for cause := diagnosis.None + 1; int(cause) < diagnosis.NumCauses; cause++ {
			colour := regexp.MustCompile(`--` + cause.Name() + `: (#[0-9a-f]{6});`).FindStringSubmatch(scheme)
			if assert.NotNil(t, colour, "%s, %s: there is --%s: #rrggbb;", name, cause, cause) {
				assert.NotContains(t, owners, colour[1], "%s, %s has a colour of its own", name, cause)
				owners[colour[1]] = cause.Name()
			}
			assert.Contains(t, string(text), ".c-"+cause.Name()+" { --c: var(--"+cause.Name()+"); }")
		}
	}
}
