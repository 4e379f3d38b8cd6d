package observer

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a user can write down stands in testdata/api: a name that goes, or a
// signature that changes, breaks somebody's build. What is meant is accepted with
// go test -run TestExportedAPI -update .
func TestExportedAPI(t *testing.T) {
	for name, folder := range map[string]string{"observer": ".", "export": "export", "client": "client"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "api", name+".txt")
			declared := exportedDeclarations(t, folder)
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
				require.NoError(t, os.WriteFile(file, []byte(declared), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			assertSameLines(t, declared, string(want), "the exported names and "+file+" differ; if that is meant: go test -run TestExportedAPI -update .")
		})
	}
}

// assertSameLines says which lines of what is made are not written down, and the other
// way round: the whole of both would hide the one that matters.
func assertSameLines(t *testing.T, made, written, otherwise string) {
	t.Helper()
	if made == written {
		return
	}
	without := func(all, others string) string {
		known := strings.Split(others, "\n")
		return strings.Join(slices.DeleteFunc(strings.Split(all, "\n"), func(line string) bool { return slices.Contains(known, line) }), "\n")
	}
	t.Errorf("%s\nmade and not written down:\n%s\nwritten down and not made:\n%s", otherwise, without(made, written), without(written, made))
}

// exportedDeclarations writes the exported half of a package without comments or
// bodies, sorted, so that moving a declaration to another file changes nothing.
func exportedDeclarations(t *testing.T, folder string) string {
	files := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	var declarations []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.FileExports(file)
		for _, declaration := range file.Decls {
			for _, one := range separate(declaration) {
				var text bytes.Buffer
				require.NoError(t, printer.Fprint(&text, files, one))
				declarations = append(declarations, text.String())
			}
		}
	}
	slices.Sort(declarations)
	return strings.Join(slices.Compact(declarations), "\n") + "\n"
}

// separate gives each name of a group a declaration of its own, and a function
// without its body. An import declares nothing.
func separate(declaration ast.Decl) (single []ast.Decl) {
	if function, ok := declaration.(*ast.FuncDecl); ok {
		if function.Recv != nil && !ofExportedType(function.Recv) {
			return nil
		}
		function.Body, function.Doc = nil, nil
		return []ast.Decl{function}
	}
	group := declaration.(*ast.GenDecl)
	if group.Tok == token.IMPORT {
		return nil
	}
	for _, spec := range group.Specs {
		single = append(single, &ast.GenDecl{Tok: group.Tok, Specs: []ast.Spec{spec}})
	}
	return single
}

// ofExportedType reports whether a receiver's type is exported.
func ofExportedType(receiver *ast.FieldList) bool {
	base := receiver.List[0].Type
	if pointer, ok := base.(*ast.StarExpr); ok {
		base = pointer.X
	}
	name, ok := base.(*ast.Ident)
	return !ok || name.IsExported()
}
