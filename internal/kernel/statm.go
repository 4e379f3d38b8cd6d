package kernel

import (
	"bytes"
	"fmt"
)

// ParseStatm returns the resident pages in the text of /proc/self/statm, its
// second field. The size of a page is the kernel's (os.Getpagesize), not always
// 4 KiB.
//
// The kernel counts pages per thread (before 6.2) or per processor (since) and
// adds them up in batches, so that the number can be off by some hundred KiB a
// thread or processor; the exact one (smaps_rollup) walks the page tables, which
// takes milliseconds in a large process.
func ParseStatm(text []byte) (residentPages int64, err error) {
	_, rest, _ := bytes.Cut(text, []byte(" "))
	field, _, complete := bytes.Cut(rest, []byte(" "))
	if !complete { // a field that ends the text may have been cut short
		return 0, fmt.Errorf("no resident size in %.64q", string(text))
	}
	residentPages, err = parseCount(field)
	if err != nil {
		return 0, fmt.Errorf("resident size: %w", err)
	}
	return residentPages, nil
}
