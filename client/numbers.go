package client

import (
	"fmt"
	"math"
	"time"
)

// short is a duration as a person says it.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f h", min(d.Hours(), 999999))
}

// count is a mean number of units, whatever a stranger says it is.
func count(n float64) string {
	if math.Abs(n) < 1e6 {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.3g", n)
}
