//go:build !linux

package kernel

import (
	"errors"
	"fmt"
)

// DescriptorLimit returns an error that wraps [errors.ErrUnsupported]: without
// the number of open descriptors, which only Linux gives, a limit says nothing.
func DescriptorLimit() (int64, error) {
	return 0, fmt.Errorf("limit of descriptors: %w", errors.ErrUnsupported)
}
