package main

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// plain is what a page said, fit for a terminal: what would move the cursor, change
// a colour or turn the direction of writing stands as an escape, and what is longer
// than most characters is cut off.
func plain(s string, most int) string {
	var b strings.Builder
	n := 0
	for i, r := range s {
		if n == most {
			return b.String() + "…"
		}
		n++
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

const (
	// textLength is for sentences, nameLength for names. The library's own are
	// under 300 and 100.
	textLength = 1000
	nameLength = 200
)

func text(s string) string { return plain(s, textLength) }
func name(s string) string { return plain(s, nameLength) }

// cell is s in a column, the rest of it cut off. It escapes first: an escape is
// several characters.
func cell(s string, width int) string {
	s = plain(s, max(width, 1))
	n := utf8.RuneCountInString(s)
	if n <= width {
		return s + strings.Repeat(" ", width-n)
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}

// right is a number at the right end of its column.
func right(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}

// number is at most five characters.
func number(n float64) string {
	switch {
	case math.IsNaN(n):
		return "-"
	case n < 0:
		return "<0"
	case n < 99.95:
		return fmt.Sprintf("%.1f", n)
	case n < 99999.5:
		return fmt.Sprintf("%.0f", n)
	case n < 999.5e6:
		return fmt.Sprintf("%.0fM", n/1e6)
	}
	return ">1G"
}

// age is at most four characters.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", math.Floor(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%.0fm", math.Floor(d.Minutes()))
	case d < 100*time.Hour:
		return fmt.Sprintf("%.0fh", math.Floor(d.Hours()))
	case d < 1000*24*time.Hour:
		return fmt.Sprintf("%.0fd", math.Floor(d.Hours()/24))
	}
	return ">3y"
}

// lag is at most six characters.
func lag(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < 9950*time.Microsecond:
		return fmt.Sprintf("%.1fms", d.Seconds()*1000)
	case d < 999500*time.Microsecond:
		return fmt.Sprintf("%.0fms", d.Seconds()*1000)
	case d < 100*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return age(d)
}

// ago is a duration in a sentence.
func ago(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(d, 0).Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", math.Floor(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", math.Floor(d.Minutes()))
	}
	return fmt.Sprintf("%.0f h", math.Floor(d.Hours()))
}
