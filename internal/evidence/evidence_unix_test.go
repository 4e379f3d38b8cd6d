//go:build unix

package evidence

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestH76FoldersAreTheProcesssUsersAlone(t *testing.T) {
	for _, umask := range []int{0o077, 0o022, 0} {
		directory := filepath.Join(t.TempDir(), "made", "evidence")
		func() {
			defer unix.Umask(unix.Umask(umask))
			require.NoError(t, Write(directory, Name{time.Now(), "gc", 1}, text("a.txt", "a"), JSON("b.json", 1)))
		}()
		err := filepath.WalkDir(filepath.Dir(directory), func(path string, entry fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := os.Stat(path)
			require.NoError(t, err)
			want := fs.FileMode(fileMode)
			if entry.IsDir() {
				want = folderMode
			}
			assert.Equal(t, want, info.Mode().Perm(), "%s with a umask of %o", entry.Name(), umask)
			return nil
		})
		require.NoError(t, err)
	}
}

// A directory that the operators made for others to read keeps its mode.
func TestH76ADirectoryThatExistsKeepsItsMode(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "evidence")
	require.NoError(t, os.Mkdir(directory, 0o700))
	require.NoError(t, os.Chmod(directory, 0o755))
	require.NoError(t, Write(directory, Name{time.Now(), "gc", 1}, text("a.txt", "a")))
	info, err := os.Stat(directory)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
}
