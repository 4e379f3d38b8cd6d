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
	where := fmt.Sprintf("%.0f %% %s", 100*first.Share, placeOf(first))
	if i := slices.IndexFunc(all, func(s Site) bool { return s.Kind == KindHold }); i >= 0 {
		if holder := all[i]; holder.In != "" {
			where += fmt.Sprintf(", held across %s (%s)", Short(holder.In), holder.Location)
		} else {
			where += fmt.Sprintf(", held at %s (%s)", Short(holder.Function), holder.Location)
		}
	}
	return where
}

// placeOf names one site: the line, or the library that waits there and the line
// that called it.
func placeOf(s Site) string {
	// That a lock is waited for in sync.(*Mutex).Lock says nothing.
	if s.In != "" && !strings.HasPrefix(s.In, "sync.") {
		return fmt.Sprintf("in %s, called at %s (%s)", Short(s.In), Short(s.Function), s.Location)
	}
	return fmt.Sprintf("at %s (%s)", Short(s.Function), s.Location)
}

// perhapsLeast is from how many requests on the sentence of none names where they
// wait perhaps for events.
const perhapsLeast = 8

// WherePerhaps says in words where requests wait perhaps for events, which is no
// verdict; nothing where they are few.
func WherePerhaps(all []Site) string {
	if len(all) == 0 || all[0].Load < perhapsLeast {
		return ""
	}
	return fmt.Sprintf("%.1f requests in flight wait in %s (%s), perhaps for events", all[0].Load, Short(all[0].Function), all[0].Location)
}
