package suite

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed differences.txt
var differencesText string

// listed are the differences that are not to be avoided.
var listed = mustParse(differencesText)

type listing struct {
	pkg    string
	modes  []Mode
	test   string
	reason string
}

// reasonFor returns why a difference is listed, nothing if it is not.
func reasonFor(d Difference) string {
	for _, l := range listed {
		if l.pkg == d.Package && l.test == d.Test && slices.Contains(l.modes, d.Mode) {
			return l.reason
		}
	}
	return ""
}

func mustParse(text string) []listing {
	parsed, err := parseListings(text)
	if err != nil {
		panic(err) // a test reads the file, too
	}
	return parsed
}

// parseListings reads lines of package, modes, test and reason. The reason is
// what is left of the line.
func parseListings(text string) (all []listing, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 4 {
			return nil, fmt.Errorf("%q is not package, modes, test and reason", line)
		}
		l := listing{pkg: fields[0], test: fields[2], reason: strings.Join(fields[3:], " ")}
		for name := range strings.SplitSeq(fields[1], ",") {
			if !slices.Contains(Modes, Mode(name)) {
				return nil, fmt.Errorf("%q names no mode %s", line, name)
			}
			l.modes = append(l.modes, Mode(name))
		}
		all = append(all, l)
	}
	return all, nil
}
