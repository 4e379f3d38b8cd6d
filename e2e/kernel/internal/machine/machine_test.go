package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// emulate puts a script in the place of the emulator.
func emulate(t *testing.T, script string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a shell script stands for the emulator")
	}
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, emulator), []byte("#!/bin/sh\n"+script), 0o755))
	t.Setenv("PATH", directory+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestAMachineThatHangsIsEndedWithWhatItSaidLast(t *testing.T) {
	emulate(t, "echo 'Calibrating delay loop'\nexec sleep 600\n")
	began := time.Now()
	_, err := Machine{Directory: t.TempDir(), Silence: time.Second}.Run(t.Context())
	require.Error(t, err)
	assert.ErrorContains(t, err, "the machine hangs: it has said nothing for 1s")
	assert.ErrorContains(t, err, "The console ended with:\nCalibrating delay loop")
	assert.Less(t, time.Since(began), time.Minute, "and not when the emulator ends")
}

func TestAMachineThatSaysSomethingDoesNotHang(t *testing.T) {
	// Longer in all than the silence that is allowed, with a result a moment before.
	emulate(t, `for argument; do case $argument in file:*) results=${argument#file:};; esac; done
for line in 1 2 3 4 5 6 7 8; do sleep 0.5; echo passed $line >> $results; done
echo done >> $results
`)
	results, err := Machine{Directory: t.TempDir(), Silence: 3 * time.Second}.Run(t.Context())
	require.NoError(t, err)
	assert.Contains(t, results, "passed 8\n")
}

// The kernel's panic reboots, which ends the emulator in peace.
func TestAMachineThatIsSwitchedOffEarly(t *testing.T) {
	const early = `for argument; do case $argument in file:*) results=${argument#file:};; esac; done
echo passed one >> $results
echo 'Kernel panic - not syncing: '%s
`
	emulate(t, fmt.Sprintf(early, "'Fatal exception'"))
	results, err := Machine{Directory: t.TempDir(), Silence: time.Minute}.Run(t.Context())
	assert.ErrorIs(t, err, ErrCutShort)
	assert.ErrorContains(t, err, "not syncing: Fatal exception")
	assert.Contains(t, results, "passed one")

	emulate(t, fmt.Sprintf(early, "'Attempted to kill init!'"))
	_, err = Machine{Directory: t.TempDir(), Silence: time.Minute}.Run(t.Context())
	require.Error(t, err)
	assert.NotErrorIs(t, err, ErrCutShort, "that is our own program's doing")
}

func TestAMachineThatPanicsSaysWhy(t *testing.T) {
	emulate(t, "for line in $(seq 100); do echo line $line; done\necho 'Kernel panic - not syncing'\nexit 3\n")
	_, err := Machine{Directory: t.TempDir(), Silence: time.Minute}.Run(t.Context())
	assert.ErrorContains(t, err, "exit status 3")
	assert.ErrorContains(t, err, "line 100\nKernel panic - not syncing")
	assert.NotContains(t, err.Error(), "line 50\n", "the end of the console is enough")
}
