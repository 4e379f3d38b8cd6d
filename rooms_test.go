package observer

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// arrows are the rooms that each room may know; a room that is not listed knows none.
// The root may know all of them, and none may know the root. An arrow more is a
// thing more that a reader of the room has to hold in mind.
var arrows = map[string][]string{
	"diagnosis":     {"number"},
	"examine":       {"diagnosis", "number", "sites", "sites/profile", "survive"},
	"evidence":      {"monotonic", "survive"},
	"inflight":      {"monotonic"},
	"lag":           {"reading", "survive"},
	"observable":    {"catalogue", "count", "diagnosis"},
	"page":          {"diagnosis", "evidence", "monotonic", "number", "wire"},
	"reading":       {"kernel", "number"},
	"readingtest":   {"kernel", "reading"},
	"record":        {"catalogue", "monotonic", "ring", "survive"},
	"route":         {"count", "inflight"},
	"sites/profile": {"sites"},
	"survive":       {"monotonic"},
	"verdict":       {"diagnosis", "inflight", "sites"},
	"window":        {"diagnosis", "number", "reading"},
}

func TestRoomsKnowEachOtherInOneDirection(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere some arrows are not needed")
	}
	output, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./internal/...").Output()
	require.NoError(t, err)
	const rooms = scopeName + "/internal/"
	listed := 0
	for line := range strings.Lines(string(output)) {
		all := strings.Fields(line)
		room := strings.TrimPrefix(all[0], rooms)
		var knows []string
		for _, imported := range all[1:] {
			if other, is := strings.CutPrefix(imported, rooms); is {
				knows = append(knows, other)
			} else {
				assert.NotEqual(t, scopeName, imported, "%s knows the root", room)
			}
		}
		slices.Sort(knows)
		assert.Equal(t, arrows[room], knows, "what %s knows", room)
		if arrows[room] != nil {
			listed++
		}
	}
	assert.Len(t, arrows, listed, "rooms that are there")
}
