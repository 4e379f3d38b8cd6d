// Package readingtest has a machine and a process for tests, which read as a test says.
package readingtest

import (
	"cmp"
	"math"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/gym-observer/observer/internal/reading"
)

// Machine is a machine of which a test decides what can be read.
type Machine struct {
	Times    kernel.ThreadTimes
	Quota    kernel.Throttled
	CPUs     float64
	Use      reading.GroupMemory
	Ticks    reading.Processors
	Alive    int64 // child processes
	MostOpen int64 // descriptors

	Failed      error // of every reading
	QuotaFailed error // of the quota's alone
}

func (m *Machine) Threads() (kernel.ThreadTimes, error) { return m.Times, m.Failed }
func (m *Machine) Throttled() (kernel.Throttled, error) {
	return m.Quota, cmp.Or(m.Failed, m.QuotaFailed)
}
func (m *Machine) Memory() (reading.GroupMemory, error)    { return m.Use, m.Failed }
func (m *Machine) Processors() (reading.Processors, error) { return m.Ticks, m.Failed }
func (m *Machine) Children() (int64, error)                { return m.Alive, m.Failed }
func (m *Machine) DescriptorLimit() (int64, error)         { return m.MostOpen, m.Failed }
func (m *Machine) CPULimit() (float64, error) {
	if m.Failed != nil {
		return math.Inf(1), m.Failed
	}
	return m.CPUs, nil
}

// Process is a process of which a test decides what can be read.
type Process struct {
	User, System float64
	Descriptors  int64
	Failed       error // of every reading
}

func (*Process) Close()                               {}
func (p *Process) CPUTime() (float64, float64, error) { return p.User, p.System, p.Failed }
func (p *Process) ResidentMemory() (int64, error)     { return 1 << 20, p.Failed }
func (p *Process) Threads() (int64, error)            { return 7, p.Failed }
func (p *Process) OpenDescriptors() (int64, error)    { return p.Descriptors, p.Failed }
