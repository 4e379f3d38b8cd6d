// Package kernel turns what the Linux kernel says about a process and its
// surroundings into numbers.
//
// Everything here is a pure function of text or of an [io/fs.FS] rooted at "/",
// so that other kernels and containers can stand in testdata, and it builds on
// every platform. Only the files named _linux.go call the kernel themselves, for
// what must be fast or has no text. No number returned is ever negative or
// wrapped around, and an error names the input that could not be used.
package kernel

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// parseCount reads a decimal number from 0 to the largest int64. It allows no
// sign: what the kernel prints as negative, such as a quota of -1, is a word
// with a meaning of its own and is compared as text.
func parseCount(text []byte) (int64, error) {
	n, err := strconv.ParseUint(string(text), 10, 63)
	if err != nil {
		// A copy, so that the caller's buffer may stay on its stack.
		return 0, fmt.Errorf("%.32q is no number from 0 to %d", string(text), int64(math.MaxInt64))
	}
	return int64(n), nil
}

// add returns a + b, or the largest int64 where that is too small. Neither may
// be negative.
func add[T ~int64](a, b T) T {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// keyed returns the value of key in text that has one "key value" a line, as in
// cpu.stat and memory.stat. A text without the key is no error, but one that
// ends within a line is: the key may have been lost.
func keyed(text []byte, key string) (value int64, found bool, err error) {
	line, found, err := keyedLine(text, key)
	if err != nil || !found {
		return 0, false, err
	}
	value, err = parseLine(line)
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", key, err)
	}
	return value, true, nil
}

// keyedLine returns what stands behind key, to the end of its line.
func keyedLine(text []byte, key string) (value []byte, found bool, err error) {
	for line := range bytes.Lines(text) {
		name, rest, spaced := bytes.Cut(line, []byte(" "))
		if !spaced {
			return nil, false, fmt.Errorf("%.32q is no key with a value", line)
		}
		if string(name) == key {
			return rest, true, nil
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return nil, false, fmt.Errorf("no %s in %d bytes that are cut short", key, len(text))
	}
	return nil, false, nil
}

// parseLine reads a number that ends with its line. One that ends with the text
// may have lost digits.
func parseLine(text []byte) (int64, error) {
	number, complete := bytes.CutSuffix(text, []byte("\n"))
	if !complete {
		return 0, fmt.Errorf("%.32q is cut short", text)
	}
	return parseCount(bytes.TrimSpace(number))
}
