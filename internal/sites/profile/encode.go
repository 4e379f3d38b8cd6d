package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"time"

	"github.com/gym-observer/observer/internal/sites"
)

// Fields that are written and not read.
const (
	profileSampleType = 1
	profileDuration   = 10
	profilePeriodType = 11
	profilePeriod     = 12

	typeName = 1
	typeUnit = 2
)

// encode writes the stacks of a profile in the form that they were read from, for go
// tool pprof. The profile itself is not kept: it has the labels that the application
// gives to pprof.Do, whatever they say of whom.
func encode(stacks []sites.Stack, lasted time.Duration) ([]byte, error) {
	e := encoder{words: map[string]uint64{}, functions: map[[2]string]uint64{}, locations: map[sites.Frame]uint64{}}
	e.word("") // comes first, by the format
	cpu := e.typeOf("cpu", "nanoseconds")
	e.profile.bytes(profileSampleType, e.typeOf("samples", "count"))
	e.profile.bytes(profileSampleType, cpu)
	for _, s := range stacks {
		var locations, values, sample buffer
		for _, f := range s.Frames {
			locations.varint(e.location(f))
		}
		values.varint(uint64(s.Count))
		values.varint(uint64(s.Count) * uint64(samplePeriod))
		sample.bytes(sampleLocation, locations)
		sample.bytes(sampleValue, values)
		e.profile.bytes(profileSample, sample)
	}
	e.profile.number(profileDuration, uint64(lasted))
	e.profile.bytes(profilePeriodType, cpu)
	e.profile.number(profilePeriod, uint64(samplePeriod))

	var packed bytes.Buffer
	packer := gzip.NewWriter(&packed)
	if _, err := packer.Write(e.profile); err != nil {
		return nil, err
	}
	if err := packer.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// encoder writes each word, function and location once, where it is first needed, and
// knows it by its number from then on.
type encoder struct {
	profile   buffer
	words     map[string]uint64
	functions map[[2]string]uint64 // by name and file
	locations map[sites.Frame]uint64
}

func (e *encoder) word(w string) uint64 {
	number, known := e.words[w]
	if !known {
		number = uint64(len(e.words))
		e.words[w] = number
		e.profile.bytes(profileString, buffer(w))
	}
	return number
}

func (e *encoder) typeOf(name, unit string) (m buffer) {
	m.number(typeName, e.word(name))
	m.number(typeUnit, e.word(unit))
	return m
}

func (e *encoder) function(f sites.Frame) uint64 {
	number, known := e.functions[[2]string{f.Function, f.File}]
	if !known {
		number = uint64(len(e.functions) + 1) // 0 is none
		e.functions[[2]string{f.Function, f.File}] = number
		var m buffer
		m.number(functionID, number)
		m.number(functionName, e.word(f.Function))
		m.number(functionFile, e.word(f.File))
		e.profile.bytes(profileFunction, m)
	}
	return number
}

func (e *encoder) location(f sites.Frame) uint64 {
	number, known := e.locations[f]
	if !known {
		number = uint64(len(e.locations) + 1)
		e.locations[f] = number
		var line, m buffer
		line.number(lineFunction, e.function(f))
		line.number(lineNumber, uint64(f.Line))
		m.number(locationID, number)
		m.bytes(locationLine, line)
		e.profile.bytes(profileLocation, m)
	}
	return number
}

// buffer is a message in the making, or a list of numbers in one.
type buffer []byte

func (m *buffer) varint(value uint64) { *m = binary.AppendUvarint(*m, value) }

func (m *buffer) number(field int, value uint64) {
	m.varint(uint64(field) << 3)
	m.varint(value)
}

func (m *buffer) bytes(field int, content buffer) {
	m.varint(uint64(field)<<3 | 2)
	m.varint(uint64(len(content)))
	*m = append(*m, content...)
}
