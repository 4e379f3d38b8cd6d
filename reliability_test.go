package observer_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page promises a test for each fault: none may go and leave the promise.
func TestReliabilityPageNamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("docs/RELIABILITY.md")
	require.NoError(t, err)
	names := regexp.MustCompile("`([a-z/]*)(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, names)
	sources := map[string]string{} // the text of a folder's tests
	for _, name := range names {
		folder := path.Clean(name[1])
		if sources[folder] == "" {
			files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
			require.NoError(t, err)
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				sources[folder] += string(text)
			}
		}
		assert.True(t, strings.Contains(sources[folder], "func "+name[2]+"("), "no %s in %s", name[2], folder)
	}
}
