package kernel

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// entry is a linux_dirent64 with a name.
func entry(name string) []byte {
	length := (entryNameAt + len(name) + 1 + 7) / 8 * 8
	made := make([]byte, length)
	binary.NativeEndian.PutUint16(made[entryLengthAt:], uint16(length))
	copy(made[entryNameAt:], name)
	return made
}

func names(entries []byte) []string {
	var all []string
	for name := range entryNames(entries) {
		all = append(all, string(name))
	}
	return all
}

func TestEntryNames(t *testing.T) {
	entries := slices.Concat(entry("."), entry(".."), entry("1"), entry("1234567"), entry("..."))
	assert.Equal(t, []string{"1", "1234567", "..."}, names(entries))
}

func TestEntryNamesStopsAtWhatDoesNotFit(t *testing.T) {
	whole := slices.Concat(entry("1"), entry("22"))
	assert.Equal(t, []string{"1"}, names(whole[:len(whole)-1]))

	endless := entry("1")
	binary.NativeEndian.PutUint16(endless[entryLengthAt:], 0)
	assert.Empty(t, names(endless))
	assert.Empty(t, names(nil))
}

func FuzzEntryNames(f *testing.F) {
	f.Add(slices.Concat(entry("."), entry(".."), entry("1")))
	f.Fuzz(func(t *testing.T, entries []byte) {
		size := 0
		for name := range entryNames(entries) {
			assert.NotContains(t, name, byte(0))
			size += entryNameAt + 1
		}
		assert.LessOrEqual(t, size, len(entries))
	})
}
