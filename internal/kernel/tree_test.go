package kernel_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// tree reads testdata/NAME.txt: a line "-- path --" begins a file, and what
// stands before the first says which machine the files are like.
func tree(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".txt")
	require.NoError(t, err)
	files := fstest.MapFS{}
	var file *fstest.MapFile
	for line := range strings.Lines(string(text)) {
		if path, found := strings.CutPrefix(line, "-- "); found {
			file = &fstest.MapFile{}
			files[strings.TrimSuffix(path, " --\n")] = file
		} else if file != nil {
			file.Data = append(file.Data, line...)
		}
	}
	return files
}

// text returns a file for a made-up tree.
func text(content string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(content)}
}
