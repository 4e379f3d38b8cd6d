//go:build !linux

package main

import "errors"

// machineTimes cannot be read here.
type machineTimes struct{}

func readMachine() (machineTimes, error) { return machineTimes{}, errors.ErrUnsupported }

func (machineTimes) since(machineTimes) machineUse { return machineUse{} }
