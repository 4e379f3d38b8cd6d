package profile

import (
	"bytes"
	"compress/gzip"
	"runtime/pprof"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/sites"
)

// message builds a protocol buffer of short fields by hand.
func message(fields ...[]byte) (all []byte) {
	for _, f := range fields {
		all = append(all, f...)
	}
	return all
}

func number(field, value byte) []byte { return []byte{field << 3, value} }

func body(field byte, text []byte) []byte {
	return append([]byte{field<<3 | 2, byte(len(text))}, text...)
}

// written is a profile of two stacks, one of them inlined at its first location.
func written() []byte {
	return message(
		body(profileSample, message(body(sampleLocation, []byte{1, 2}), body(sampleValue, []byte{7, 70}))),
		body(profileSample, message(number(sampleLocation, 2), number(sampleValue, 3))),
		body(profileSample, message(body(sampleLocation, []byte{1}), body(sampleValue, []byte{0, 0}))),
		body(profileLocation, message(number(locationID, 1),
			body(locationLine, message(number(lineFunction, 1), number(lineNumber, 11))),
			body(locationLine, message(number(lineFunction, 2), number(lineNumber, 22))))),
		body(profileLocation, message(number(locationID, 2),
			body(locationLine, message(number(lineFunction, 3), number(lineNumber, 33))))),
		body(profileFunction, message(number(functionID, 1), number(functionName, 1), number(functionFile, 4))),
		body(profileFunction, message(number(functionID, 2), number(functionName, 2), number(functionFile, 4))),
		body(profileFunction, message(number(functionID, 3), number(functionName, 3), number(functionFile, 99))),
		body(profileString, nil), body(profileString, []byte("main.a")), body(profileString, []byte("main.b")),
		body(profileString, []byte("main.c")), body(profileString, []byte("main.go")),
	)
}

func TestProfileIsRead(t *testing.T) {
	stacks, err := parseProfile(written())
	require.NoError(t, err)
	c := sites.Frame{Function: "main.c", Line: 33} // its file is no word of the table
	assert.Equal(t, []sites.Stack{
		{Count: 7, Frames: []sites.Frame{{Function: "main.a", File: "main.go", Line: 11}, {Function: "main.b", File: "main.go", Line: 22}, c}},
		{Count: 3, Frames: []sites.Frame{c}},
	}, stacks)
}

func TestMalformedProfile(t *testing.T) {
	for name, text := range map[string][]byte{
		"no number":       {profileSample << 3},
		"short":           {profileSample<<3 | 2, 5, 1},
		"length too long": {profileSample<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"group":           {profileSample<<3 | 3},
		"short fixed":     {1<<3 | 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseProfile(text)
			assert.ErrorIs(t, err, errMalformed)
		})
	}
	_, err := parse([]byte("not packed"))
	assert.ErrorIs(t, err, gzip.ErrHeader)
}

func FuzzProfile(f *testing.F) {
	f.Add(written())
	f.Fuzz(func(t *testing.T, text []byte) {
		stacks, err := parseProfile(text)
		if err != nil {
			return
		}
		for _, s := range stacks {
			assert.Positive(t, s.Count)
			for _, frame := range s.Frames {
				assert.GreaterOrEqual(t, frame.Line, 0)
			}
		}
	})
}

// What runtime/pprof writes of goroutines has the same format.
func TestProfileOfTheRuntime(t *testing.T) {
	var text bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&text, 0))
	stacks, err := parse(text.Bytes())
	require.NoError(t, err)
	var found bool
	for _, s := range stacks {
		for _, frame := range s.Frames {
			found = found || frame.Function == "github.com/gym-observer/observer/internal/sites/profile.TestProfileOfTheRuntime" && frame.Line > 0 && frame.File != ""
		}
	}
	assert.True(t, found, "%v", stacks)
}
