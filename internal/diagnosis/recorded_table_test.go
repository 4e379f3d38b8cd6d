package diagnosis

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of the recorded windows anew")

// What the rules said of each recorded workload when it was recorded, and what they
// say now: people read the table in place of forty files.
func TestH68TableOfRecordedWindows(t *testing.T) {
	const (
		page  = "testdata/windows/README.md"
		begin = "<!-- then and now: made by go test ./internal/diagnosis -run TestH68Table -update -->\n"
		end   = "<!-- end of then and now -->\n"
	)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found, "%s has the line %s", page, begin)
	written, after, found := strings.Cut(rest, end)
	require.True(t, found, "%s has the line %s", page, end)
	table := thenAndNow(t)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+table+end+after), 0o644))
		return
	}
	assert.Equal(t, table, written)
}

// thenAndNow has a row for each workload that was measured; those made by hand had
// no verdict then.
func thenAndNow(t *testing.T) string {
	var table strings.Builder
	table.WriteString("| workload | what it was | right | then | now |\n|---|---|---|---|---|\n")
	all := readRecorded(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		then, now := make(map[string]int), make(map[string]int)
		for _, w := range r.Windows[2:] {
			then[w.VerdictThen]++
		}
		if then[""] > 0 {
			continue
		}
		for _, verdict := range r.verdicts(t)[2:] {
			now[verdict.Name()]++
		}
		fmt.Fprintf(&table, "| %s | %s | `%s` | %s | %s |\n", name, r.What, r.Right, counts(then), counts(now))
	}
	return table.String()
}

// counts are the verdicts of a workload's windows, the most frequent first, with how
// many there were where not all agree.
func counts(verdicts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(verdicts), func(a, b string) int {
		return cmp.Or(verdicts[b]-verdicts[a], strings.Compare(a, b))
	})
	var all []string
	for _, name := range names {
		text := "`" + name + "`"
		if len(names) > 1 {
			text += fmt.Sprintf(" %d", verdicts[name])
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
