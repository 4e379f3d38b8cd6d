package main

import "fmt"

// machineUse is what others did to the CPUs, in CPUs.
type machineUse struct {
	CPUs   int     `json:"cpus"`
	Others float64 `json:"others"` // other processes
	Steal  float64 `json:"steal"`  // the hypervisor
}

func (m *machineUse) String() string {
	if m == nil {
		return "an unknown part of the CPUs"
	}
	return fmt.Sprintf("%.2f of %d CPUs, the hypervisor %.2f", m.Others, m.CPUs, m.Steal)
}
