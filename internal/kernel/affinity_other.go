//go:build !linux

package kernel

import (
	"errors"
	"fmt"
)

// Affinity returns an error that wraps [errors.ErrUnsupported].
func Affinity() (CPUMask, error) {
	return nil, fmt.Errorf("affinity: %w", errors.ErrUnsupported)
}
