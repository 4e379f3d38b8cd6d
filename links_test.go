package observer

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A link of the documentation leads to a file that is there, and to a heading
// that it has.
func TestLinksOfThePages(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	followed := 0
	require.NoError(t, filepath.WalkDir(".", func(page string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && entry.Name() == ".git" {
			return filepath.SkipDir
		}
		if filepath.Ext(page) != ".md" {
			return nil
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range link.FindAllSubmatch(text, -1) {
			target, heading, _ := strings.Cut(string(found[1]), "#")
			if strings.Contains(target, "://") {
				continue // another site's
			}
			followed++
			in := page
			if target != "" {
				in = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(in); !assert.NoError(t, err, "%s links to %s", page, found[1]) {
				continue
			}
			if heading != "" {
				assert.Contains(t, headings(t, in), heading, "%s links to %s", page, found[1])
			}
		}
		return nil
	}))
	assert.Greater(t, followed, 20, "links that were followed")
}

// headings returns the anchors of a page, as code hosts make them: lower case,
// dashes for spaces, and nothing else but letters, digits and underscores.
func headings(t *testing.T, page string) (anchors []string) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for line := range bytes.Lines(text) {
		if title := strings.TrimLeft(string(line), "#"); title != string(line) {
			anchors = append(anchors, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-"))
		}
	}
	return anchors
}
