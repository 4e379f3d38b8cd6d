package reading

// Process reads this process, not its children and no other process. Each
// method may be called from several goroutines at once. An error that wraps
// errors.ErrUnsupported stays as long as the process runs.
//
// NewProcess, one for Linux and one for the rest, returns it.
type Process interface {
	// CPUTime returns the CPU seconds used in user mode and in the kernel.
	CPUTime() (user, system float64, err error)
	// ResidentMemory returns the bytes of memory that are in RAM.
	ResidentMemory() (bytes int64, err error)
	// Threads returns the number of operating system threads.
	Threads() (int64, error)
	// OpenDescriptors returns the number of open descriptors, with those that the
	// source keeps. One that the reading itself opens is not counted.
	OpenDescriptors() (int64, error)
	// Close gives up what the source keeps open. A reading goes on to work.
	Close()
}
