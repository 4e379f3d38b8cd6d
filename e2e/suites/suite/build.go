package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// binary is one package's tests, built with the hook in them.
type binary struct {
	label  string // of the package, in results
	file   string
	folder string // to run it in
	flags  []string
}

// build makes the suite's test binaries.
func (w *Workshop) build(ctx context.Context, s Suite) ([]binary, error) {
	if s.Module == "" {
		return w.buildStandard(ctx, s)
	}
	source := w.path("modules", s.Name)
	if err := w.copyModule(ctx, s, source); err != nil {
		return nil, err
	}
	var built []binary
	for _, p := range s.Packages {
		listed, err := w.patchedGo(ctx, source, "list", "-f", "{{.Name}} {{.Dir}}", p)
		if err != nil {
			return nil, err
		}
		name, folder, _ := strings.Cut(strings.TrimSpace(listed), " ")
		if err := importHook(folder, name); err != nil {
			return nil, err
		}
		b := binary{label: label(s, p), folder: folder, flags: s.Flags[p]}
		b.file = w.path("binaries", strings.ReplaceAll(b.label, "/", "_")+".test")
		if _, err := w.patchedGo(ctx, folder, "test", "-c", "-vet=off", "-o", b.file, "."); err != nil {
			return nil, err
		}
		built = append(built, b)
	}
	return built, nil
}

// buildStandard builds packages of the standard library from the hook's folder:
// any folder that is not below the copy's src will do.
func (w *Workshop) buildStandard(ctx context.Context, s Suite) ([]binary, error) {
	var built []binary
	for _, p := range s.Packages {
		b := binary{label: p, folder: w.path("go", "src", p), flags: s.Flags[p]}
		b.file = w.path("binaries", strings.ReplaceAll(p, "/", "_")+".test")
		if _, err := w.patchedGo(ctx, w.path("hook"), "test", "-c", "-vet=off", "-o", b.file, p); err != nil {
			return nil, err
		}
		built = append(built, b)
	}
	return built, nil
}

func label(s Suite, p string) string {
	return strings.TrimSuffix(s.Name+"/"+strings.TrimPrefix(strings.TrimPrefix(p, "."), "/"), "/")
}

// copyModule copies a module out of the module cache, downloaded if need be, and
// has it require the hook.
func (w *Workshop) copyModule(ctx context.Context, s Suite, to string) error {
	text, err := w.plainGo(ctx, w.path("hook"), "mod", "download", "-json", s.Module+"@"+s.Version)
	if err != nil {
		return err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal([]byte(text), &downloaded); err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := copyTree(downloaded.Dir, to, nil); err != nil {
		return err
	}
	for _, patch := range s.Patches {
		if err := patch(to); err != nil {
			return fmt.Errorf("%w (does %s %s look different?)", err, s.Module, s.Version)
		}
	}
	if _, err := w.patchedGo(ctx, to, "mod", "edit",
		"-require="+hookPath+"@v0.0.0", "-replace="+hookPath+"="+w.path("hook"),
		"-require="+libraryPath+"@v0.0.0", "-replace="+libraryPath+"="+w.path("library"), "-toolchain=none"); err != nil {
		return err
	}
	_, err = w.patchedGo(ctx, to, "get", hookPath+"@v0.0.0") // with what it requires
	return err
}
