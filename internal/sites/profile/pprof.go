package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"

	"github.com/gym-observer/observer/internal/sites"
)

// The format that runtime/pprof writes is a protocol buffer, of which five
// messages and a dozen fields matter here. Measured in a stripped server of
// 5.8 MB: runtime/pprof itself adds 139 kB, these lines and the choice of sites
// 41 kB. github.com/google/pprof/profile would add 450 kB instead of them, and a
// module to every go.sum, to read fields that nobody here looks at.

// maxProfile bounds what is unpacked: the profile of 5 s has some kilobytes for
// each stack.
const maxProfile = 16 << 20

var errMalformed = errors.New("malformed profile")

// The numbers of the fields.
const (
	profileSample   = 2
	profileLocation = 4
	profileFunction = 5
	profileString   = 6

	sampleLocation = 1
	sampleValue    = 2

	locationID   = 1
	locationLine = 4

	lineFunction = 1
	lineNumber   = 2

	functionID   = 1
	functionName = 2
	functionFile = 4
)

// parse reads the stacks of a profile, each with its number of samples.
func parse(packed []byte) ([]sites.Stack, error) {
	unpacker, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(unpacker, maxProfile))
	if err != nil {
		return nil, err
	}
	return parseProfile(text)
}

type function struct{ id, name, file uint64 }

type line struct{ function, number uint64 }

type sample struct {
	locations []uint64
	values    []uint64
}

func parseProfile(text []byte) ([]sites.Stack, error) {
	var samples []sample
	var words []string
	locations := map[uint64][]line{}
	functions := map[uint64]function{}
	err := fields(text, func(field int, _ uint64, body []byte) error {
		switch field {
		case profileSample:
			var s sample
			err := fields(body, func(field int, value uint64, body []byte) error {
				switch field {
				case sampleLocation:
					return numbers(&s.locations, value, body)
				case sampleValue:
					return numbers(&s.values, value, body)
				}
				return nil
			})
			samples = append(samples, s)
			return err
		case profileLocation:
			id, lines, err := parseLocation(body)
			locations[id] = lines
			return err
		case profileFunction:
			f, err := parseFunction(body)
			functions[f.id] = f
			return err
		case profileString:
			words = append(words, string(body))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	word := func(i uint64) string {
		if i < uint64(len(words)) {
			return words[i]
		}
		return ""
	}
	var stacks []sites.Stack
	for _, s := range samples {
		if len(s.values) == 0 || s.values[0] == 0 || s.values[0] > maxSamples {
			continue
		}
		stack := sites.Stack{Count: int(s.values[0])}
		for _, location := range s.locations {
			for _, l := range locations[location] {
				f := functions[l.function]
				stack.Frames = append(stack.Frames, sites.Frame{
					Function: word(f.name), File: word(f.file), Line: int(min(l.number, maxLine)),
				})
			}
		}
		stacks = append(stacks, stack)
	}
	return stacks, nil
}

// What no profile of ours exceeds: 5 s of a thousand processors, and the line
// number that the compiler stops at.
const (
	maxSamples = 1 << 20
	maxLine    = 1 << 24
)

func parseLocation(text []byte) (id uint64, lines []line, err error) {
	err = fields(text, func(field int, value uint64, body []byte) error {
		switch field {
		case locationID:
			id = value
		case locationLine:
			var l line
			err := fields(body, func(field int, value uint64, _ []byte) error {
				switch field {
				case lineFunction:
					l.function = value
				case lineNumber:
					l.number = value
				}
				return nil
			})
			lines = append(lines, l)
			return err
		}
		return nil
	})
	return id, lines, err
}

func parseFunction(text []byte) (f function, err error) {
	err = fields(text, func(field int, value uint64, _ []byte) error {
		switch field {
		case functionID:
			f.id = value
		case functionName:
			f.name = value
		case functionFile:
			f.file = value
		}
		return nil
	})
	return f, err
}

// fields calls each for every field of a message, with its number or its bytes.
func fields(text []byte, each func(field int, value uint64, body []byte) error) error {
	for len(text) > 0 {
		key, n := binary.Uvarint(text)
		if n <= 0 || key>>3 > 1<<20 {
			return errMalformed
		}
		text = text[n:]
		var value uint64
		var body []byte
		switch key & 7 {
		case 0:
			if value, n = binary.Uvarint(text); n <= 0 {
				return errMalformed
			}
			text = text[n:]
		case 1, 5:
			size := 8
			if key&7 == 5 {
				size = 4
			}
			if len(text) < size {
				return errMalformed
			}
			text = text[size:]
		case 2:
			size, n := binary.Uvarint(text)
			if n <= 0 || size > uint64(len(text)-n) {
				return errMalformed
			}
			body, text = text[n:n+int(size)], text[n+int(size):]
		default:
			return errMalformed
		}
		if err := each(int(key>>3), value, body); err != nil {
			return err
		}
	}
	return nil
}

// numbers reads a repeated number, which may be packed.
func numbers(into *[]uint64, value uint64, packed []byte) error {
	if packed == nil {
		*into = append(*into, value)
		return nil
	}
	for len(packed) > 0 {
		v, n := binary.Uvarint(packed)
		if n <= 0 {
			return errMalformed
		}
		*into, packed = append(*into, v), packed[n:]
	}
	return nil
}
