package reading

import (
	"fmt"
	"os"
	"testing"

	gopsutil "github.com/shirou/gopsutil/v3/process"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkProcessReadings takes all four readings, with few and with many open
// descriptors, beside what the same four cost through gopsutil.
func BenchmarkProcessReadings(b *testing.B) {
	for _, descriptors := range []int{0, 1_000} {
		b.Run(fmt.Sprintf("descriptors=%d", descriptors), func(b *testing.B) {
			for range descriptors {
				descriptor, err := unix.Dup(0)
				require.NoError(b, err)
				defer unix.Close(descriptor)
			}
			b.Run("source", benchmarkSource)
			b.Run("gopsutil", benchmarkGopsutil)
		})
	}
}

func benchmarkSource(b *testing.B) {
	source := NewProcess()
	b.ReportAllocs()
	for b.Loop() {
		_, _, cpuErr := source.CPUTime()
		_, memoryErr := source.ResidentMemory()
		_, threadsErr := source.Threads()
		_, descriptorsErr := source.OpenDescriptors()
		if cpuErr != nil || memoryErr != nil || threadsErr != nil || descriptorsErr != nil {
			b.Fatal(cpuErr, memoryErr, threadsErr, descriptorsErr)
		}
	}
}

func benchmarkGopsutil(b *testing.B) {
	process := &gopsutil.Process{Pid: int32(os.Getpid())}
	b.ReportAllocs()
	for b.Loop() {
		_, cpuErr := process.Times()
		_, memoryErr := process.MemoryInfo()
		_, threadsErr := process.NumThreads()
		_, descriptorsErr := process.NumFDs()
		if cpuErr != nil || memoryErr != nil || threadsErr != nil || descriptorsErr != nil {
			b.Fatal(cpuErr, memoryErr, threadsErr, descriptorsErr)
		}
	}
}

// BenchmarkProcessReading takes each of the four.
func BenchmarkProcessReading(b *testing.B) {
	source := NewProcess()
	for _, reading := range []struct {
		name string
		take func() error
	}{
		{"cpuTime", func() error { _, _, err := source.CPUTime(); return err }},
		{"residentMemory", func() error { _, err := source.ResidentMemory(); return err }},
		{"threads", func() error { _, err := source.Threads(); return err }},
		{"openDescriptors", func() error { _, err := source.OpenDescriptors(); return err }},
		{"countDescriptors", func() error { _, err := countDescriptors("/proc/self/fd"); return err }},
	} {
		b.Run(reading.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := reading.take(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
