package suite

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed hook/hook.go
var hookSource string

const (
	hookPath    = "foreign.test/hook"
	libraryPath = "github.com/gym-observer/observer"
)

// Workshop is a folder with a patched Go, the library cut down to the package,
// and the test binaries that are built with both. It is for one user at a time.
type Workshop struct {
	folder  string
	command []string // in front of each test binary
	Log     func(format string, values ...any)
}

// Open makes a workshop in an empty folder, for the library whose sources are in
// the folder library. It takes about a minute, and 300 MB if the folder is not on
// the file system of the Go installation.
func Open(ctx context.Context, folder, library string, log func(format string, values ...any)) (*Workshop, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	w := &Workshop{folder: folder, command: loopbackOnly(ctx), Log: log}
	if w.command == nil {
		log("the tests can reach the network: only root can take it away from them")
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"copying the Go installation", func() error { return w.copyGo(ctx) }},
		{"copying the library", func() error { return w.copyLibrary(ctx, library) }},
		{"writing the hook", func() error { return w.writeHook(ctx) }},
		{"putting both into the copy's vendor folder", func() error { return w.vendor(ctx) }},
	} {
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return w, nil
}

func (w *Workshop) path(elements ...string) string {
	return filepath.Join(append([]string{w.folder}, elements...)...)
}

// copyGo copies what builds and tests need, by hard links where it can.
func (w *Workshop) copyGo(ctx context.Context) error {
	text, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	root := strings.TrimSpace(string(text))
	for _, part := range []string{"bin", "lib", "pkg", "src", "VERSION", "go.env"} {
		if err := copyTree(filepath.Join(root, part), w.path("go", part), os.Link); err != nil {
			return err
		}
	}
	for _, patch := range goPatches() {
		if err := patch(w.path("go")); err != nil {
			return fmt.Errorf("%w (does this Go look different?)", err)
		}
	}
	return nil
}

// copyLibrary copies the root package with what it imports of the module, without
// tests, and with the requirements of that alone: those of the exporters would
// change which versions other people's tests run with.
func (w *Workshop) copyLibrary(ctx context.Context, library string) error {
	list, err := w.plainGo(ctx, library, "list", "-deps", "-f",
		`{{if .Module}}{{if .Module.Main}}{{.ImportPath}} {{.Dir}} {{join .GoFiles ","}},{{join .IgnoredGoFiles ","}},{{join .EmbedFiles ","}}{{end}}{{end}}`, ".")
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return fmt.Errorf("unexpected line %q of go list", line)
		}
		to := w.path("library", strings.TrimPrefix(fields[0], libraryPath))
		if err := copyFiles(fields[1], to, strings.Split(fields[2], ",")); err != nil {
			return err
		}
	}
	if err := copyFiles(library, w.path("library"), []string{"go.mod", "go.sum"}); err != nil {
		return err
	}
	_, err = w.plainGo(ctx, w.path("library"), "mod", "tidy")
	return err
}

func (w *Workshop) writeHook(ctx context.Context) error {
	if err := os.MkdirAll(w.path("hook"), 0o755); err != nil {
		return err
	}
	_, source, _ := strings.Cut(hookSource, "//go:build ignore\n")
	if err := write(w.path("hook", "hook.go"), []byte(source)); err != nil {
		return err
	}
	version, err := w.plainGo(ctx, w.path("library"), "list", "-m", "-f", "{{.Version}}", "go.opentelemetry.io/otel")
	if err != nil {
		return err
	}
	module := "module " + hookPath + "\n\ngo 1.26.0\n\n" +
		"require " + libraryPath + " v0.0.0\n\nrequire go.opentelemetry.io/otel/sdk/metric " + strings.TrimSpace(version) + "\n\n" +
		"replace " + libraryPath + " => ../library\n"
	if err := write(w.path("hook", "go.mod"), []byte(module)); err != nil {
		return err
	}
	_, err = w.patchedGo(ctx, w.path("hook"), "mod", "tidy")
	return err
}

// vendor makes the hook and all that it imports packages of the copied standard
// library, whose tests can import nothing else, and has those tests import it.
func (w *Workshop) vendor(ctx context.Context) error {
	list, err := w.patchedGo(ctx, w.path("hook"), "list", "-deps", "-f",
		`{{if not .Standard}}{{.ImportPath}} {{.Dir}} {{join .GoFiles ","}},{{join .SFiles ","}},{{join .HFiles ","}},{{join .EmbedFiles ","}}{{end}}`, ".")
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return fmt.Errorf("unexpected line %q of go list", line)
		}
		to := w.path("go", "src", "vendor", fields[0])
		if there, _ := filepath.Glob(filepath.Join(to, "*.go")); len(there) > 0 {
			continue // the standard library's own
		}
		if err := copyFiles(fields[1], to, strings.Split(fields[2], ",")); err != nil {
			return err
		}
	}
	for _, s := range All() {
		if s.Module != "" {
			continue
		}
		for _, p := range s.Packages {
			if err := importHook(w.path("go", "src", p), filepath.Base(p)); err != nil {
				return err
			}
		}
	}
	return nil
}

// importHook has the tests of a package import the hook.
func importHook(folder, name string) error {
	return write(filepath.Join(folder, "foreign_hook_test.go"), fmt.Appendf(nil, "package %s_test\n\nimport _ %q\n", name, hookPath))
}

// plainGo runs the installed go command; patchedGo the one that knows the
// variables of net/http.
func (w *Workshop) plainGo(ctx context.Context, folder string, arguments ...string) (string, error) {
	return goCommand(ctx, folder, "go", nil, arguments)
}

func (w *Workshop) patchedGo(ctx context.Context, folder string, arguments ...string) (string, error) {
	return goCommand(ctx, folder, w.path("go", "bin", "go"), []string{"GOROOT=" + w.path("go"), "GOTOOLCHAIN=local"}, arguments)
}

func goCommand(ctx context.Context, folder, name string, environment, arguments []string) (string, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false -mod=mod")
	command.Env = append(command.Env, environment...)
	var problems bytes.Buffer
	command.Stderr = &problems
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s%s", strings.Join(arguments[:min(2, len(arguments))], " "), err, text, problems.Bytes())
	}
	return string(text), nil
}

// copyFiles copies files, some of which have a folder in their name.
func copyFiles(from, to string, names []string) error {
	for _, name := range names {
		if name == "" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			return err
		}
		if err := write(filepath.Join(to, name), text); err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies a file or a folder, file by file with the given function, or by
// its content where that cannot.
func copyTree(from, to string, link func(from, to string) error) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == from {
			return nil // not every Go has every part
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case entry.Type()&fs.ModeSymlink != 0:
			points, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(points, target)
		case link != nil && link(path, target) == nil:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, text, info.Mode().Perm()|0o600)
	})
}

// loopbackOnly returns a command that gives another one a network of its own,
// with nothing in it but loopback; nil where that cannot be done.
func loopbackOnly(ctx context.Context) []string {
	command := []string{"unshare", "-n", "sh", "-c", `ip link set lo up && exec "$0" "$@"`}
	if exec.CommandContext(ctx, command[0], append(command[1:], "true")...).Run() != nil {
		return nil
	}
	return command
}
