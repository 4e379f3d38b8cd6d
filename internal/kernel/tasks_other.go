//go:build !linux

package kernel

import (
	"errors"
	"fmt"
)

// TaskReader reads the times of a process's threads, which only Linux keeps.
type TaskReader struct{}

// NewTaskReader returns a reader that reports what this platform cannot do.
func NewTaskReader(string) *TaskReader { return &TaskReader{} }

// Read returns an error that wraps [errors.ErrUnsupported].
func (*TaskReader) Read() (TaskTimes, error) {
	return TaskTimes{}, fmt.Errorf("times of threads: %w", errors.ErrUnsupported)
}
