package kernel

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// The layout of one directory entry, linux_dirent64 in getdents(2): inode and
// offset of 8 bytes each, the length of the entry, its type, and its name, which
// a zero byte ends.
const (
	entryLengthAt = 16
	entryNameAt   = 19
)

// entryNames yields the names in what getdents64 has returned, without "." and
// "..". It stops at an entry that does not fit. A name is valid until the next.
func entryNames(entries []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(entries) > entryNameAt {
			length := int(binary.NativeEndian.Uint16(entries[entryLengthAt:]))
			if length <= entryNameAt || length > len(entries) {
				return
			}
			name, _, _ := bytes.Cut(entries[entryNameAt:length], []byte{0})
			entries = entries[length:]
			if string(name) == "." || string(name) == ".." {
				continue
			}
			if !yield(name) {
				return
			}
		}
	}
}
