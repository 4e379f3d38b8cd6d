//go:build unix

package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCtrlCEndsTheStackInOrder sends the signal to all processes, as a terminal
// does.
func TestCtrlCEndsTheStackInOrder(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), program, "-duration", "0", "-every", "200ms")
	command.Env = append(os.Environ(), programVariable+"=1")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())

	lines := bufio.NewReader(stdout)
	var printed strings.Builder
	for !strings.Contains(printed.String(), " active of ") { // until the rollouts run
		line, err := lines.ReadString('\n')
		require.NoError(t, err, "%s", printed.String())
		printed.WriteString(line)
	}
	pages := regexp.MustCompile(`http://127\.0\.0\.1:\d+/\S+`).FindAllString(printed.String(), -1)
	assert.Len(t, pages, processes, "live pages in\n%s", printed.String())
	for _, page := range pages {
		response, err := http.Get(page + "?format=json")
		require.NoError(t, err)
		assert.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusOK, response.StatusCode, page)
	}
	require.NoError(t, syscall.Kill(-command.Process.Pid, syscall.SIGINT))
	_, err = io.Copy(&printed, lines)
	require.NoError(t, err)
	require.NoError(t, command.Wait(), "%s", printed.String())
	assert.Regexp(t, `\d+ rollouts offered, [1-9]\d* finished, 0 failed, \d+ abandoned`, printed.String())
	assert.Contains(t, printed.String(), "It ran too briefly for a table")

	for _, found := range regexp.MustCompile(`(?m)^\w+ +process (\d+)`).FindAllStringSubmatch(printed.String(), -1) {
		pid, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "the process %s after the end", found[0])
	}
}
