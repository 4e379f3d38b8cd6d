package kernel_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMemory(t *testing.T) {
	const pod = "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod57d2.slice"
	for name, want := range map[string]kernel.MemoryUse{
		"v1-container": {"sys/fs/cgroup/memory", 402653184 - 2*67108864, 536870912, "memory.limit_in_bytes"},
		"v1-host":      {"sys/fs/cgroup/memory/system.slice/api.service", 0, 0, ""},
		"v2-container": {"sys/fs/cgroup", 201326592 - 2*33554432, 268435456, "memory.max"},
		"v2-pod":       {pod, 398458880 - 20971520, 402653184, "memory.max"}, // nearer to its limit than the node
		"v2-host":      {"sys/fs/cgroup/system.slice/api.service", 0, 0, ""},
		"hybrid":       {"sys/fs/cgroup/memory/sandbox", 101666816 - 1048576, 104857600, "memory.limit_in_bytes"},
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

// v1 of a container whose own group has no limit that is its own.
func TestH62LimitThatOnlyTheTotalNames(t *testing.T) {
	files := fstest.MapFS{
		"m/memory.limit_in_bytes": text("9223372036854771712\n"),
		"m/memory.usage_in_bytes": text("510000000\n"),
		"m/memory.stat": text("cache 1\nhierarchical_memory_limit 536870912\n" +
			"total_inactive_file 10000000\ntotal_active_file 0\n"),
	}
	use, err := kernel.Cgroup{Directories: []string{"m"}}.Memory(files)
	require.NoError(t, err)
	assert.Equal(t, kernel.MemoryUse{"m", 500000000, 536870912, "hierarchical_memory_limit"}, use)

	// The smaller one holds.
	files["m/memory.limit_in_bytes"] = text("520000000\n")
	use, err = kernel.Cgroup{Directories: []string{"m"}}.Memory(files)
	require.NoError(t, err)
	assert.Equal(t, kernel.MemoryUse{"m", 500000000, 520000000, "memory.limit_in_bytes"}, use)

	for _, unlimited := range []string{"9223372036854771712", "9223372036854775807", "18446744073709551615"} {
		files["m/memory.limit_in_bytes"] = text(unlimited + "\n")
		files["m/memory.stat"] = text("cache 1\nhierarchical_memory_limit " + unlimited + "\n")
		use, err = kernel.Cgroup{Directories: []string{"m"}}.Memory(files)
		require.NoError(t, err)
		assert.Equal(t, kernel.MemoryUse{Directory: "m"}, use, unlimited)
	}

	// At the root of the hierarchy nothing is hidden, and the long file is not read.
	files["m/cgroup.sane_behavior"] = text("0\n")
	files["m/memory.stat"] = text("broken")
	_, err = kernel.Cgroup{Directories: []string{"m"}}.Memory(files)
	require.NoError(t, err)
}

// 24 of 35 MiB were active file pages.
func TestH64WarmPageCache(t *testing.T) {
	const mib = 1 << 20
	line := func(key string, value int) string { return fmt.Sprintln(key, value) }
	v2 := fstest.MapFS{
		"c/memory.max": text(line("", 256*mib)[1:]), "c/memory.current": text(line("", 234*mib)[1:]),
		"c/memory.stat": text(line("anon", 2*mib) + line("file", 230*mib) + line("shmem", 0) + line("inactive_anon", 2*mib) +
			line("active_file", 160*mib) + line("inactive_file", 70*mib) + line("slab_reclaimable", mib)),
	}
	use, err := kernel.Cgroup{Unified: true, Directories: []string{"c"}}.Memory(v2)
	require.NoError(t, err)
	assert.Equal(t, int64(3*mib), use.Used)
	assert.Less(t, use.Share(), 0.02)

	v1 := fstest.MapFS{
		"c/memory.limit_in_bytes": text(line("", 256*mib)[1:]), "c/memory.usage_in_bytes": text(line("", 232*mib)[1:]),
		"c/memory.stat": text(line("cache", 230*mib) + line("inactive_file", 9*mib) + // without groups below
			line("total_inactive_file", 71*mib) + line("total_active_file", 159*mib)),
	}
	use, err = kernel.Cgroup{Directories: []string{"c"}}.Memory(v1)
	require.NoError(t, err)
	assert.Equal(t, int64(2*mib), use.Used)

	// A tmpfs is memory that cannot be dropped: it is on the anonymous lists.
	v2["c/memory.stat"] = text(line("anon", 2*mib) + line("file", 230*mib) + line("shmem", 230*mib) +
		line("inactive_anon", 232*mib) + line("active_file", 0) + line("inactive_file", 0) + line("slab_reclaimable", 0))
	use, err = kernel.Cgroup{Unified: true, Directories: []string{"c"}}.Memory(v2)
	require.NoError(t, err)
	assert.Equal(t, int64(234*mib), use.Used)
}

func TestH65MemoryHigh(t *testing.T) {
	group := func(max, high, parentMax string) fstest.MapFS {
		files := fstest.MapFS{
			"p/c/memory.max": text(max), "p/c/memory.high": text(high), "p/c/memory.current": text("42000000\n"),
			"p/c/memory.stat": text("anon 41000000\nactive_file 0\ninactive_file 0\nslab_reclaimable 0\n"),
			"p/memory.max":    text(parentMax), "p/memory.current": text("50000000\n"),
			"p/memory.stat": text("anon 41000000\nactive_file 0\ninactive_file 0\n"), // slab switched off
		}
		if high == "" {
			delete(files, "p/c/memory.high")
		}
		return files
	}
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  kernel.MemoryUse
	}{
		"high alone":           {group("max\n", "41943040\n", "max\n"), kernel.MemoryUse{"p/c", 42000000, 41943040, "memory.high"}},
		"high below the max":   {group("60000000\n", "41943040\n", "max\n"), kernel.MemoryUse{"p/c", 42000000, 41943040, "memory.high"}},
		"the max below high":   {group("42500000\n", "60000000\n", "max\n"), kernel.MemoryUse{"p/c", 42000000, 42500000, "memory.max"}},
		"equal":                {group("42500000\n", "42500000\n", "max\n"), kernel.MemoryUse{"p/c", 42000000, 42500000, "memory.max"}},
		"the parent is nearer": {group("max\n", "84000000\n", "55000000\n"), kernel.MemoryUse{"p", 50000000, 55000000, "memory.max"}},
		"a kernel without it":  {group("84000000\n", "", "max\n"), kernel.MemoryUse{"p/c", 42000000, 84000000, "memory.max"}},
	} {
		t.Run(name, func(t *testing.T) {
			use, err := kernel.Cgroup{Unified: true, Directories: []string{"p/c", "p"}}.Memory(c.files)
			require.NoError(t, err)
			assert.Equal(t, c.want, use)
		})
	}
	_, err := kernel.Cgroup{Unified: true, Directories: []string{"p/c"}}.Memory(group("max\n", "lots\n", "max\n"))
	require.ErrorContains(t, err, `memory of p/c: memory.high: "lots"`)
}

func TestH65MemoryStalled(t *testing.T) {
	files := fstest.MapFS{"p/c/memory.pressure": text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1204\n" +
		"full avg10=61.20 avg60=18.03 avg300=4.00 total=811\n")}
	stalled, err := kernel.Cgroup{Unified: true, Directories: []string{"p/c", "p"}}.MemoryStalled(files)
	require.NoError(t, err)
	assert.Equal(t, 811*time.Microsecond, stalled)

	_, err = kernel.Cgroup{Unified: true, Directories: []string{"p"}}.MemoryStalled(files)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = kernel.Cgroup{Directories: []string{"p/c"}}.MemoryStalled(files)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestParsePressureNamesBadInput(t *testing.T) {
	for text, message := range map[string]string{
		"":                                 "no line of full pressure",
		"some avg10=0.00 total=1\n":        "no line of full pressure",
		"full avg10=0.00\n":                `no total in "full avg10=0.00\n"`,
		"full avg10=0.00 total=12":         `total: "12" is cut short`,
		"full avg10=0.00 total=-1\n":       `total: "-1"`,
		"full total=9223372036854775807\n": "", // the largest, without an error
	} {
		full, err := kernel.ParsePressure([]byte(text))
		if message == "" {
			require.NoError(t, err)
			assert.Positive(t, full)
			continue
		}
		require.ErrorContains(t, err, message)
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
