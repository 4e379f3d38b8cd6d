package kernel_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFiles(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(directory, "a", "b"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(directory, "a", "b", "c"), []byte("text"), 0o644))
	files := kernel.Files(directory)

	text, err := fs.ReadFile(files, "a/b/c")
	require.NoError(t, err)
	assert.Equal(t, "text", string(text))
	info, err := fs.Stat(files, "a/b")
	require.NoError(t, err)
	assert.True(t, info.IsDir())
	info, err = fs.Stat(files, ".")
	require.NoError(t, err)
	assert.True(t, info.IsDir())
	file, err := files.Open("a/b/c")
	require.NoError(t, err)
	require.NoError(t, file.Close())

	_, err = fs.ReadFile(files, "a/missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, name := range []string{"", "/a", "a/", "a//b", "../a", "a/../a", "./a", "a/.", "a\x00b"} {
		_, err = files.Stat(name)
		require.ErrorIs(t, err, fs.ErrInvalid, "%q", name)
		_, err = files.ReadFile(name)
		require.ErrorIs(t, err, fs.ErrInvalid, "%q", name)
		_, err = files.Open(name)
		require.ErrorIs(t, err, fs.ErrInvalid, "%q", name)
	}
}
