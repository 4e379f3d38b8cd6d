//go:build !linux

package kernel

import (
	"errors"
	"fmt"
)

// ThreadReader reads the threads of a process, which only Linux shows.
type ThreadReader struct{}

// NewThreadReader returns a reader that reports what this platform cannot do.
func NewThreadReader(string) *ThreadReader { return &ThreadReader{} }

// Read returns an error that wraps [errors.ErrUnsupported].
func (*ThreadReader) Read() (ThreadTimes, error) {
	return ThreadTimes{}, fmt.Errorf("times of threads: %w", errors.ErrUnsupported)
}

// Children returns an error that wraps [errors.ErrUnsupported].
func (*ThreadReader) Children() (int64, error) {
	return 0, fmt.Errorf("children: %w", errors.ErrUnsupported)
}
