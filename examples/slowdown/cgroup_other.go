//go:build !linux

package main

import (
	"context"
	"fmt"
)

var errNeedsCgroups = fmt.Errorf("%w: it needs the cgroups of Linux", errNotPossible)

func enterQuota(float64) (leave func() error, err error) { return nil, errNeedsCgroups }

func fillCgroup(context.Context, *server) error { return errNeedsCgroups }
