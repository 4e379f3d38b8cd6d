package env

import (
	"os"
	"path/filepath"
	"runtime/debug"
)

// VersionOf is the version of a module in the running binary.
func VersionOf(module string) string {
	const unknown = "(devel)"
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	for _, dependency := range build.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	if build.Main.Path == module && build.Main.Version != "" {
		return build.Main.Version
	}
	return unknown
}

// Program is the name of the program. A library in a foreign program has no arguments.
func Program() string {
	if len(os.Args) == 0 {
		return "unnamed"
	}
	return filepath.Base(os.Args[0])
}
