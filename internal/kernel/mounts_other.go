//go:build !linux

package kernel

// MountWatch cannot tell on this platform.
type MountWatch struct{}

// Changed always reports true.
func (*MountWatch) Changed() bool { return true }

// Forget does nothing.
func (*MountWatch) Forget() {}
