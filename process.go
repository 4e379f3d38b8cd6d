package observer

// processSource reads this process, not its children and no other process. Each
// method may be called from several goroutines at once. An error that wraps
// errors.ErrUnsupported stays as long as the process runs.
//
// newProcessSource, one for Linux and one for the rest, returns it.
type processSource interface {
	// cpuTime returns the CPU seconds used in user mode and in the kernel.
	cpuTime() (user, system float64, err error)
	// residentMemory returns the bytes of memory that are in RAM.
	residentMemory() (bytes int64, err error)
	// threads returns the number of operating system threads.
	threads() (int64, error)
	// openDescriptors returns the number of open descriptors, with those that the
	// source keeps. One that the reading itself opens is not counted.
	openDescriptors() (int64, error)
	// close gives up what the source keeps open. A reading goes on to work.
	close()
}
