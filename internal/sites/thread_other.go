//go:build !linux

package sites

import "time"

var start = time.Now()

// threadTime is the time that has passed: at least what a thread has used.
func threadTime() time.Duration { return time.Since(start) }
