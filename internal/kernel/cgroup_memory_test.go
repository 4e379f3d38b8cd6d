package kernel_test

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMemory(t *testing.T) {
	const pod = "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod57d2.slice"
	for name, want := range map[string]kernel.MemoryUse{
		"v1-container": {"sys/fs/cgroup/memory", 402653184 - 67108864, 536870912},
		"v1-host":      {"sys/fs/cgroup/memory/system.slice/api.service", 0, 0},
		"v2-container": {"sys/fs/cgroup", 201326592 - 33554432, 268435456},
		"v2-pod":       {pod, 398458880 - 20971520, 402653184}, // nearer to its limit than the node
		"v2-host":      {"sys/fs/cgroup/system.slice/api.service", 0, 0},
		"hybrid":       {"sys/fs/cgroup/memory/sandbox", 101666816 - 1048576, 104857600},
	} {
		t.Run(name, func(t *testing.T) {
			files := tree(t, name)
			cgroup, err := new(kernel.CgroupFinder).Find(files, "memory")
			require.NoError(t, err)
			use, err := cgroup.Memory(files)
			require.NoError(t, err)
			assert.Equal(t, want, use)
		})
	}
}

func TestMemoryShare(t *testing.T) {
	assert.Equal(t, 0.75, kernel.MemoryUse{Used: 3, Limit: 4}.Share())
	assert.Equal(t, 1.25, kernel.MemoryUse{Used: 5, Limit: 4}.Share())
	assert.Zero(t, kernel.MemoryUse{Used: 5}.Share())
}

func TestMemoryUsedIsNeverNegative(t *testing.T) {
	use, err := kernel.Cgroup{Unified: true, Directories: []string{"c"}}.Memory(fstest.MapFS{
		"c/memory.max": text("100\n"), "c/memory.current": text("10\n"), "c/memory.stat": text("inactive_file 30\n"),
	})
	require.NoError(t, err)
	assert.Zero(t, use.Used)
}

func TestMemoryOfGroupsWithoutFiles(t *testing.T) {
	_, err := kernel.Cgroup{Unified: true, Directories: []string{"c/a", "c"}}.Memory(fstest.MapFS{
		"c/a/cgroup.events": text("populated 1\n"),
	})
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestMemoryNamesBadInput(t *testing.T) {
	for name, c := range map[string]struct{ limit, usage, stat, message string }{
		"limit":     {"lots\n", "1\n", "inactive_file 1\n", `memory of c: memory.max: "lots"`},
		"usage":     {"5\n", "-1\n", "inactive_file 1\n", `memory of c: memory.current: "-1"`},
		"cut short": {"5\n", "1", "inactive_file 1\n", `memory.current: "1" is cut short`},
		"stat":      {"5\n", "1\n", "inactive_file x\n", `c/memory.stat: inactive_file: "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kernel.Cgroup{Unified: true, Directories: []string{"c"}}.Memory(fstest.MapFS{
				"c/memory.max": text(c.limit), "c/memory.current": text(c.usage), "c/memory.stat": text(c.stat),
			})
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestParseMemoryLimit(t *testing.T) {
	for text, want := range map[string]int64{
		"536870912\n":            536870912,
		"24051816857600\n":       24051816857600, // more than 8 TiB is a real limit
		"max\n":                  0,
		"9223372036854771712\n":  0, // pages of 4 KiB
		"9223372036854710272\n":  0, // pages of 64 KiB
		"8796093018112\n":        0, // a 32-bit machine
		"9223372036854775807\n":  0, // Linux 3.10
		"18446744073709551615\n": 0, // Linux 3.16
		"0\n":                    1,
	} {
		limit, err := kernel.ParseMemoryLimit([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, limit, text)
	}
	for text, message := range map[string]string{
		"":                       `"" is cut short`,
		"53687":                  `"53687" is cut short`,
		"-1\n":                   `"-1"`,
		"18446744073709551616\n": `"18446744073709551616"`,
		"512M\n":                 `"512M"`,
	} {
		_, err := kernel.ParseMemoryLimit([]byte(text))
		require.ErrorContains(t, err, message)
	}
}

func FuzzParseMemoryLimit(f *testing.F) {
	f.Add([]byte("536870912\n"))
	f.Add([]byte("max\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		limit, _ := kernel.ParseMemoryLimit(text)
		assert.GreaterOrEqual(t, limit, int64(0))
	})
}

func FuzzMemory(f *testing.F) {
	f.Add([]byte("536870912\n"), []byte("402653184\n"), []byte("anon 1\ninactive_file 67108864\n"))
	f.Fuzz(func(t *testing.T, limit, usage, stat []byte) {
		use, err := kernel.Cgroup{Unified: true, Directories: []string{"c"}}.Memory(fstest.MapFS{
			"c/memory.max": {Data: limit}, "c/memory.current": {Data: usage}, "c/memory.stat": {Data: stat},
		})
		assert.GreaterOrEqual(t, use.Used, int64(0))
		assert.GreaterOrEqual(t, use.Limit, int64(0))
		assert.GreaterOrEqual(t, use.Share(), 0.0)
		if err != nil {
			assert.Zero(t, use)
		}
	})
}
