package machine

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
)

// file is one entry of an initramfs.
type file struct {
	name    string
	mode    uint32 // type and permissions, as in stat(2)
	content []byte
}

const (
	directory  = 0o040755
	executable = 0o100755
)

// writeInitramfs writes a file system for the kernel to start from: programs by
// their path. The kernel takes a cpio archive of the kind "newc" (its
// Documentation/driver-api/early-userspace/buffer-format.rst), which is simple
// enough to do without the cpio program.
func writeInitramfs(path string, programs map[string]string) error {
	files := []file{
		{"dev", directory, nil}, {"proc", directory, nil}, {"sys", directory, nil}, {"tmp", directory, nil},
	}
	for name, source := range programs {
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		files = append(files, file{name, executable, content})
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	// Unpacking costs the emulator more than reading does.
	compressed, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return err
	}
	for i, f := range append(files, file{name: "TRAILER!!!"}) {
		if err := writeEntry(compressed, i+1, f); err != nil {
			return err
		}
	}
	if err := compressed.Close(); err != nil {
		return err
	}
	return out.Close()
}

// writeEntry writes a header of thirteen numbers of eight hexadecimal digits,
// the name and the content, each padded to four bytes.
func writeEntry(w io.Writer, inode int, f file) error {
	header := "070701" // magic
	for _, number := range []uint32{
		uint32(inode), f.mode, 0, 0, 1, 0, // inode, mode, user, group, links, time
		uint32(len(f.content)), 0, 0, 0, 0, // size, device and special device
		uint32(len(f.name) + 1), 0, // with the zero byte; check sum
	} {
		header += fmt.Sprintf("%08X", number)
	}
	head := header + f.name + "\x00"
	if _, err := io.WriteString(w, head+padding(len(head))); err != nil {
		return err
	}
	if _, err := w.Write(f.content); err != nil {
		return err
	}
	_, err := io.WriteString(w, padding(len(f.content)))
	return err
}

func padding(length int) string { return "\x00\x00\x00"[:(4-length%4)%4] }
