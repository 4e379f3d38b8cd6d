package kernel

import "golang.org/x/sys/unix"

// MountWatch tells whether the mounts that a process sees have changed. The
// kernel says so on an open /proc/self/mountinfo (mounts_poll in fs/namespace.c),
// which costs less than a microsecond, where reading thirty thousand mounts costs
// tens of milliseconds. The zero value is ready; it keeps one descriptor from when it
// is first asked until Forget. It is not safe for concurrent use.
type MountWatch struct {
	open       bool
	descriptor int
	id         unix.Stat_t
}

// Changed reports whether mounts were added, removed or changed since it was
// last asked. The first time, and where it cannot tell, it says that they were:
// a caller that reads them again is then right, if slow.
func (w *MountWatch) Changed() bool {
	if !w.same() {
		w.reopen()
		return true
	}
	poll := []unix.PollFd{{Fd: int32(w.descriptor), Events: unix.POLLPRI}}
	n, err := unix.Poll(poll, 0)
	return err != nil || n > 0
}

// Forget closes the descriptor.
func (w *MountWatch) Forget() {
	if w.same() {
		_ = unix.Close(w.descriptor) // nothing was written
	}
	w.open = false
}

// same reports whether the descriptor is open and still that file's: an
// application may close what is not its own, and the number be another file's.
func (w *MountWatch) same() bool {
	var now unix.Stat_t
	return w.open && unix.Fstat(w.descriptor, &now) == nil && now.Dev == w.id.Dev && now.Ino == w.id.Ino
}

// reopen opens the file. The kernel reports what changes from then on. Unlike
// os.Open this does not offer the file to the network poller, which would wake up
// with every mount.
func (w *MountWatch) reopen() {
	w.open = false
	descriptor, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	if err := unix.Fstat(descriptor, &w.id); err != nil {
		_ = unix.Close(descriptor) // nothing was written
		return
	}
	w.descriptor, w.open = descriptor, true
}
