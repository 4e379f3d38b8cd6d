//go:build unix

package page

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Opening a pipe that nobody writes to hangs, as a directory on a dead file
// server does.
func TestDirectoryThatHangsHoldsUpOneLookAndNobodyElse(t *testing.T) {
	name := filepath.Join(t.TempDir(), "captures")
	require.NoError(t, unix.Mkfifo(name, 0o600))
	var list captureList
	under := func() chan struct{} {
		list.mu.Lock()
		defer list.mu.Unlock()
		return list.looking
	}
	assert.Empty(t, list.of(name))
	first := under()
	require.NotNil(t, first)
	assert.Empty(t, list.of(name))
	assert.Equal(t, first, under())

	writer, err := os.OpenFile(name, os.O_WRONLY, 0) // lets the look go on
	require.NoError(t, err)
	writer.Close()
	<-first
	assert.Nil(t, under())
}
