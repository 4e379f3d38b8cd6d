// Package env reads settings from the environment: Gym's variable first, then
// Lens's, then none. It logs nothing: a value that cannot be used comes back as
// an error that names the variable and the value, beside the default to go on with.
// It also tells what the program is called, and in which version a module is in it.
package env

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Value is one variable as it was found. The zero Value is an unset one.
type Value struct {
	Name string // the variable that the text came from, or the first one looked at
	Text string // without the white space around it; empty when unset or blank
}

// Gym returns NEMO_GYM_OTEL_<suffix>, or NEMO_LENS_<suffix> where the first is
// unset or blank. A first variable that cannot be used still hides the second:
// falling through would let a typing error switch to a setting nobody looks at.
func Gym(suffix string) Value {
	gym := Standard("NEMO_GYM_OTEL_" + suffix)
	if gym.Set() {
		return gym
	}
	if lens := Standard("NEMO_LENS_" + suffix); lens.Set() {
		return lens
	}
	return gym
}

// Standard returns the variable of exactly this name.
func Standard(name string) Value {
	return Value{Name: name, Text: strings.TrimSpace(os.Getenv(name))}
}

// Set tells whether the variable holds anything but white space.
func (v Value) Set() bool { return v.Text != "" }

// Bool reads 1, true, yes, on and their opposites in any letter case. It returns
// unset for an unset variable, and with an error for one that cannot be used.
func (v Value) Bool(unset bool) (bool, error) {
	switch strings.ToLower(v.Text) {
	case "":
		return unset, nil
	case "1", "true", "yes", "on":
		return true, nil
	case "0", "false", "no", "off":
		return false, nil
	}
	return unset, v.unusable("one of 1, true, yes, on, 0, false, no, off")
}

// Seconds reads a decimal number of seconds from least to most, both included.
// It returns unset for an unset variable, and with an error for one that cannot be used.
func (v Value) Seconds(least, most, unset time.Duration) (time.Duration, error) {
	if !v.Set() {
		return unset, nil
	}
	seconds, err := strconv.ParseFloat(v.Text, 64)
	nanoseconds := math.Round(seconds * float64(time.Second))
	inRange := nanoseconds >= float64(least) && nanoseconds <= float64(most) // false for NaN
	if err != nil || !inRange || strings.ContainsAny(v.Text, "xX_") {        // 0x1p-4 and 1_0 are numbers to Go alone
		return unset, v.unusable(fmt.Sprintf("seconds from %v to %v", least.Seconds(), most.Seconds()))
	}
	return time.Duration(nanoseconds), nil
}

// Milliseconds reads a whole number of milliseconds above zero. It returns unset
// for an unset variable, and with an error for one that cannot be used.
func (v Value) Milliseconds(unset time.Duration) (time.Duration, error) {
	if !v.Set() {
		return unset, nil
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/int64(time.Millisecond) {
		return unset, v.unusable("whole milliseconds above 0")
	}
	return time.Duration(n) * time.Millisecond, nil
}

// maxQuoted bounds what a warning repeats of a value, in bytes before quoting.
const maxQuoted = 100

func (v Value) unusable(want string) error {
	text := v.Text
	if len(text) > maxQuoted {
		cut := maxQuoted
		for cut > maxQuoted-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
			cut-- // not through the middle of a character
		}
		text = text[:cut] + "…"
	}
	return fmt.Errorf("%s is %q, want %s", v.Name, text, want)
}
