package integrations_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEachExampleWorksInAModuleOfItsOwn follows the README's steps as they are
// written there, in an empty directory.
func TestEachExampleWorksInAModuleOfItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it builds each example anew, with the newest versions of what it imports")
	}
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)## Copy one\n.*?```sh\n(.*?)```").FindSubmatch(readme)
	require.NotNil(t, block, "the steps in the README")
	checkout, err := filepath.Abs("../..")
	require.NoError(t, err)

	for _, name := range examples {
		t.Run(name, func(t *testing.T) {
			steps := replace(t, string(block[1]), "EXAMPLE=chi", "EXAMPLE="+name)
			steps = replace(t, steps, "OBSERVER=$HOME/observer", "OBSERVER='"+checkout+"'")
			shell := exec.CommandContext(t.Context(), "sh", "-eux", "-c", steps)
			shell.Dir = t.TempDir()
			output, err := shell.CombinedOutput()
			require.NoError(t, err, "%s", output)

			help, err := exec.CommandContext(t.Context(), filepath.Join(shell.Dir, name, name), "-help").CombinedOutput()
			require.NoError(t, err, "%s", help)
			assert.Contains(t, string(help), "The exit status is")
		})
	}
}

func replace(t *testing.T, text, old, new string) string {
	t.Helper()
	require.Equal(t, 1, strings.Count(text, old), "%s in the README's steps:\n%s", old, text)
	return strings.Replace(text, old, new, 1)
}

func TestReadmeListsEachExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	var found []string
	for _, file := range files {
		found = append(found, filepath.Dir(file))
	}
	assert.ElementsMatch(t, examples, found, "the directories with a program")
	for _, name := range found {
		assert.Contains(t, string(readme), "| ["+name+"]("+name+"/")
	}
}
