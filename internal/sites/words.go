package sites

import (
	"fmt"
	"slices"
	"strings"
)

// Where says in words where a cause is in the code, or why that is not known.
func Where(all []Site, why string) string {
	if len(all) == 0 {
		return why
	}
	first := all[0]
	where := fmt.Sprintf("%.0f %%%s %s", 100*first.Share, ofWhat[first.Kind], placeOf(first))
	if i := slices.IndexFunc(all, func(s Site) bool { return s.Kind == KindHold }); i >= 0 {
		if holder := all[i]; holder.In != "" {
			where += fmt.Sprintf(", held across %s (%s)", holder.In, holder.Location)
		} else {
			where += fmt.Sprintf(", held at %s (%s)", Short(holder.Function), holder.Location)
		}
	}
	return where
}

// ofWhat says what a share is of, where it is not of those that wait.
var ofWhat = map[string]string{
	KindAlloc: " of the bytes are allocated",
	KindHeap:  " of the heap",
	KindCPU:   " of the CPU",
}

// placeOf names one site: the line, or the library that waits there and the line
// that called it.
func placeOf(s Site) string {
	// That a lock is waited for in sync.(*Mutex).Lock says nothing.
	if s.In != "" && !strings.HasPrefix(s.In, "sync.") {
		return fmt.Sprintf("in %s, called at %s (%s)", s.In, Short(s.Function), s.Location)
	}
	return fmt.Sprintf("at %s (%s)", Short(s.Function), s.Location)
}

// namedLeast is from how many requests at one line on the sentence of none names it.
const namedLeast = 8

// WhereUnblamed says in words where requests wait although no rule holds: those that
// are fewer than half of what is owed, and those that wait perhaps for events. Nothing
// where they are few.
func WhereUnblamed(waiting, perhaps []Site) string {
	if len(waiting) > 0 && waiting[0].Load >= namedLeast {
		return fmt.Sprintf("%.1f requests in flight wait %s", waiting[0].Load, placeOf(waiting[0]))
	}
	if len(perhaps) > 0 && perhaps[0].Load >= namedLeast {
		return fmt.Sprintf("%.1f requests in flight wait in %s (%s), perhaps for events", perhaps[0].Load, Short(perhaps[0].Function), perhaps[0].Location)
	}
	return ""
}
