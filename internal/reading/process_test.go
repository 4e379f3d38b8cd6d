package reading

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aloneVariable names the test that a run of the test binary is for.
const aloneVariable = "OBSERVER_TEST_ALONE"

// alone runs the calling test in a process of its own, where no other test has
// goroutines, threads, open files or work. It returns true there, and false in
// the process that started it, once the other is done.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(aloneVariable) == t.Name() {
		return true
	}
	program, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), program, "-test.v", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), aloneVariable+"="+t.Name())
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
	if bytes.Contains(output, []byte("--- SKIP: "+t.Name())) {
		t.Skipf("%s", output)
	}
	return false
}

func TestProcessSourceReadsThisProcess(t *testing.T) {
	source := NewProcess()

	user, system, err := source.CPUTime()
	if !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
		assert.Positive(t, user+system)
	}
	memory, err := source.ResidentMemory()
	if !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
		assert.Greater(t, memory, int64(1<<20))
	}
	threads, err := source.Threads()
	if !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
		assert.Positive(t, threads)
	}
	descriptors, err := source.OpenDescriptors()
	if !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
		assert.GreaterOrEqual(t, descriptors, int64(3))
	}
}

// With the variables set for an agent that watches the host, the readings are
// still of this process and not of what the host's files say.
func TestProcessSourceIgnoresHostProc(t *testing.T) {
	if !alone(t) {
		return
	}
	host := t.TempDir()
	for _, process := range []string{"self", strconv.Itoa(os.Getpid())} {
		directory := filepath.Join(host, process)
		require.NoError(t, os.MkdirAll(filepath.Join(directory, "fd"), 0o755))
		require.NoError(t, os.MkdirAll(filepath.Join(directory, "task", "1"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(directory, "statm"), []byte("1 1 1 1 0 1 0\n"), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(directory, "status"), []byte("Threads:\t99999\n"), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(directory, "stat"), []byte("garbage\n"), 0o644))
	}
	for _, variable := range []string{"PROC", "SYS", "ETC", "VAR", "RUN", "DEV", "ROOT"} {
		t.Setenv("HOST_"+variable, host)
	}
	TestProcessSourceReadsThisProcess(t)

	threads, err := NewProcess().Threads()
	if !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
		assert.Less(t, threads, int64(99999))
	}
}
