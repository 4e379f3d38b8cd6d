// Package wire has the forms that values have in the JSON of a diagnosis, there and
// back without a loss. It knows nothing of a diagnosis.
package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Seconds is a duration that JSON has as a number of seconds. It writes the
// decimal digits that the nanoseconds have: a float64 of seconds would lose the
// last of them after a month or so.
type Seconds time.Duration

// MarshalJSON writes 1.5 for a second and a half.
func (s Seconds) MarshalJSON() ([]byte, error) {
	whole, rest := time.Duration(s)/time.Second, time.Duration(s)%time.Second
	if rest == 0 {
		return strconv.AppendInt(nil, int64(whole), 10), nil
	}
	sign := ""
	if s < 0 {
		sign, whole, rest = "-", -whole, -rest
	}
	return fmt.Appendf(nil, "%s%d.%s", sign, whole, strings.TrimRight(fmt.Sprintf("%09d", rest), "0")), nil
}

// UnmarshalJSON reads any number of seconds that a Duration can hold.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	number := string(text)
	if number == "null" {
		return nil
	}
	// Digits of nanoseconds are read as they stand. More digits than that, or an
	// exponent, are somebody else's float64.
	if _, decimals, _ := strings.Cut(number, "."); len(decimals) <= 9 && !strings.ContainsAny(number, "eE") {
		if d, err := time.ParseDuration(number + "s"); err == nil {
			*s = Seconds(d)
			return nil
		}
	}
	value, err := strconv.ParseFloat(number, 64)
	// 1<<63 nanoseconds is one more than a Duration can hold, and a float64.
	if nanos := math.Round(value * 1e9); err == nil && nanos >= -1<<63 && nanos < 1<<63 {
		*s = Seconds(nanos)
		return nil
	}
	return fmt.Errorf("%.40q is no number of seconds that fits a time.Duration", number)
}

// NotNull lets an empty list be [] in JSON.
func NotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// NotEmpty is the way back.
func NotEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
