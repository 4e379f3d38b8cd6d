package env

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAModuleThatIsNotInTheBinaryHasNoVersion(t *testing.T) {
	assert.Equal(t, "(devel)", VersionOf("example.com/not/there"))
}

func TestProgramHasANameAlsoWithoutArguments(t *testing.T) {
	whole := os.Args
	defer func() { os.Args = whole }()
	os.Args = []string{filepath.Join("some", "where", "agent"), "-flag"}
	assert.Equal(t, "agent", Program())
	os.Args = nil
	assert.Equal(t, "unnamed", Program())
}
