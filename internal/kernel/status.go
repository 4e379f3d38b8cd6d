package kernel

import (
	"bytes"
	"errors"
	"fmt"
)

// ParseThreads returns the number of threads in the text of /proc/self/status.
// The text also holds the process's name, which the process chooses, but the
// kernel escapes a line feed in it.
func ParseThreads(text []byte) (int64, error) {
	for line := range bytes.Lines(text) {
		value, found := bytes.CutPrefix(line, []byte("Threads:"))
		if !found {
			continue
		}
		threads, err := parseLine(value)
		if err != nil {
			return 0, fmt.Errorf("threads: %w", err)
		}
		return threads, nil
	}
	return 0, errors.New("no line of threads")
}
