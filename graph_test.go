package observer

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxLines is how long a file of the root may be, comments and all: what a reader
// holds in mind at once.
const maxLines = 350

// tied are the ties between files that may close a circle, each with its reason:
// what an exported type has as a method cannot be anywhere else.
var tied = map[string]string{}

// fileGraph is which file of the package uses what of which other file.
type fileGraph map[string]map[string][]string // user, used, names

// rootFiles returns the files of the package that are not tests, on this system.
func rootFiles(t *testing.T) []string {
	t.Helper()
	output, err := exec.Command("go", "list", "-f", `{{join .GoFiles "\n"}}`, ".").Output()
	require.NoError(t, err)
	return strings.Fields(string(output))
}

// exportData returns the compiled packages that the root imports, by their path.
func exportData(t *testing.T) map[string]string {
	t.Helper()
	command := exec.Command("go", "list", "-export", "-deps", "-f", `{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}`, ".")
	var failed bytes.Buffer
	command.Stderr = &failed
	output, err := command.Output()
	require.NoError(t, err, "%s", &failed)
	files := make(map[string]string)
	for line := range strings.Lines(string(output)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files
}

// readGraph type-checks the files, and returns who uses whose package-level names
// and methods. A field belongs to its type, which is used already by whoever has a
// value of it.
func readGraph(t *testing.T) fileGraph {
	t.Helper()
	compiled := exportData(t)
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range rootFiles(t) {
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(compiled[path])
	})}
	this, err := config.Check(scopeName, set, files, info)
	require.NoError(t, err)

	graph := make(fileGraph)
	fileOf := func(at token.Pos) string { return filepath.Base(set.Position(at).Filename) }
	for identifier, used := range info.Uses {
		function, isFunction := used.(*types.Func)
		if isFunction {
			used = function.Origin()
		}
		isMethod := isFunction && function.Signature().Recv() != nil
		if used.Pkg() != this || !isMethod && used.Parent() != this.Scope() {
			continue
		}
		from, to := fileOf(identifier.Pos()), fileOf(used.Pos())
		if from == to {
			continue
		}
		if graph[from] == nil {
			graph[from] = make(map[string][]string)
		}
		if !slices.Contains(graph[from][to], used.Name()) {
			graph[from][to] = append(graph[from][to], used.Name())
		}
	}
	return graph
}

// circles returns the groups of files of which each reaches each other: Tarjan's
// components of more than one file.
func (g fileGraph) circles() (all [][]string) {
	index, low := make(map[string]int), make(map[string]int)
	var stack []string
	var visit func(file string)
	visit = func(file string) {
		index[file] = len(index) + 1
		low[file] = index[file]
		stack = append(stack, file)
		for _, to := range slices.Sorted(maps.Keys(g[file])) {
			if index[to] == 0 {
				visit(to)
				low[file] = min(low[file], low[to])
			} else if slices.Contains(stack, to) {
				low[file] = min(low[file], index[to])
			}
		}
		if low[file] != index[file] {
			return
		}
		from := slices.Index(stack, file)
		if group := slices.Clone(stack[from:]); len(group) > 1 {
			slices.Sort(group)
			all = append(all, group)
		}
		stack = stack[:from]
	}
	for _, file := range slices.Sorted(maps.Keys(g)) {
		if index[file] == 0 {
			visit(file)
		}
	}
	return all
}

// ties lists who uses what of whom within a group of files.
func (g fileGraph) ties(group []string) string {
	var text strings.Builder
	for _, from := range group {
		for _, to := range slices.Sorted(maps.Keys(g[from])) {
			if slices.Contains(group, to) {
				fmt.Fprintf(&text, "%s uses of %s: %s\n", from, to, strings.Join(slices.Sorted(slices.Values(g[from][to])), ", "))
			}
		}
	}
	return text.String()
}

func TestFilesUseEachOtherInOneDirection(t *testing.T) {
	graph := readGraph(t)
	require.NotEmpty(t, graph["observer.go"], "the public life cycle uses the rest")
	for tie, reason := range tied {
		from, to, _ := strings.Cut(tie, " > ")
		require.NotEmpty(t, reason)
		require.NotEmpty(t, graph[from][to], "%s is no tie any more: strike it", tie)
		delete(graph[from], to)
	}
	for _, group := range graph.circles() {
		t.Errorf("%s form a circle:\n%s", strings.Join(group, ", "), graph.ties(group))
	}
	for from, uses := range graph {
		assert.NotContains(t, uses, "observer.go", "%s knows the public life cycle", from)
	}
	if testing.Verbose() {
		for _, from := range slices.Sorted(maps.Keys(graph)) {
			t.Log(from, "uses", strings.Join(slices.Sorted(maps.Keys(graph[from])), ", "))
		}
	}
}

func TestCircleIsFound(t *testing.T) {
	graph := fileGraph{
		"a.go": {"b.go": {"B"}},
		"b.go": {"c.go": {"C"}, "d.go": {"D"}},
		"c.go": {"a.go": {"A"}},
		"d.go": {"e.go": {"E"}},
	}
	assert.Equal(t, [][]string{{"a.go", "b.go", "c.go"}}, graph.circles())
	assert.Equal(t, "a.go uses of b.go: B\nb.go uses of c.go: C\nc.go uses of a.go: A\n", graph.ties(graph.circles()[0]))
}

func TestNoFileIsLong(t *testing.T) {
	for _, name := range rootFiles(t) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.LessOrEqual(t, bytes.Count(text, []byte("\n")), maxLines, "lines of %s", name)
	}
}
