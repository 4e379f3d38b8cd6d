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

// The pages promise a test for each fault, and for each line on what is exported:
// none may go and leave the promise.
func TestReliabilityPageNamesTestsThatExist(t *testing.T) {
	sources := map[string]string{} // the text of a folder's tests
	for _, name := range []string{"docs/RELIABILITY.md", "SECURITY.md"} {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		named := regexp.MustCompile("`([a-z0-9/]*)(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1)
		require.NotEmpty(t, named)
		assert.Len(t, named, len(regexp.MustCompile("Test[A-Z]").FindAllString(string(page), -1)), "%s names a test in another way", name)
		for _, test := range named {
			folder := path.Clean(test[1])
			if sources[folder] == "" {
				files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
				require.NoError(t, err)
				for _, file := range files {
					text, err := os.ReadFile(file)
					require.NoError(t, err)
					sources[folder] += string(text)
				}
			}
			assert.True(t, strings.Contains(sources[folder], "func "+test[2]+"("), "%s: no %s in %s", name, test[2], folder)
		}
	}
}
