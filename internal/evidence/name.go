// Package evidence is the folders that WithCapture leaves: their names, the
// writing, the removal of those past a budget, and when a [Capture] begins. It knows
// nothing of a diagnosis, which it is given as any value to write as JSON.
package evidence

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Name is that of a folder: when it was captured, why, and by which process.
type Name struct {
	At      time.Time // to the microsecond: in containers every process may be number 1
	Reason  string    // letters a to z and underscores, at least one
	Process int
}

const (
	nameTime = "20060102T150405.000000Z"

	// partialPrefix stands before the name of a folder that is being written or removed.
	partialPrefix = ".partial-"
)

// String returns the name as the folder has it. Sorted by name is sorted by time.
func (n Name) String() string {
	return fmt.Sprintf("%s-%s-%d", n.At.UTC().Format(nameTime), n.Reason, n.Process)
}

// partial is the name of the same folder while it is not complete.
func (n Name) partial() string { return partialPrefix + n.String() }

// ParseName reads the name of a complete folder. This is the one definition of
// what is ours in a directory that others may use as well: what it refuses is
// neither listed nor served nor removed. It takes exactly what String gives, and
// so refuses the folder that somebody has renamed in order to keep it.
func ParseName(s string) (name Name, ok bool) {
	stamp, rest, _ := strings.Cut(s, "-")
	reason, process, _ := strings.Cut(rest, "-")
	at, timeErr := time.Parse(nameTime, stamp)
	number, processErr := strconv.Atoi(process)
	if timeErr != nil || processErr != nil || number < 0 || !validReason(reason) {
		return Name{}, false
	}
	name = Name{at, reason, number}
	return name, name.String() == s // or "+7" and "007" were processes, too
}

// parsePartial reads the name of a folder that is being written or removed.
func parsePartial(s string) (name Name, ok bool) {
	rest, found := strings.CutPrefix(s, partialPrefix)
	if !found {
		return Name{}, false
	}
	return ParseName(rest)
}

func validReason(reason string) bool {
	return reason != "" && strings.Trim(reason, "abcdefghijklmnopqrstuvwxyz_") == ""
}
