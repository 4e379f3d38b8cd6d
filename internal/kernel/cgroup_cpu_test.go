package kernel_test

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCPULimit(t *testing.T) {
	for name, want := range map[string]float64{
		"v1-container": 1.5,
		"v1-host":      3, // of the slice above
		"v2-container": 0.5,
		"v2-pod":       2, // of the pod above
		"v2-host":      math.Inf(1),
		"hybrid":       0.2,
	} {
		t.Run(name, func(t *testing.T) {
			files := tree(t, name)
			cgroup, err := new(kernel.CgroupFinder).Find(files, "cpu")
			require.NoError(t, err)
			cpus, err := cgroup.CPULimit(files)
			require.NoError(t, err)
			assert.Equal(t, want, cpus)
		})
	}
}

func TestParseCPUMax(t *testing.T) {
	cpus, err := kernel.ParseCPUMax([]byte("max 100000\n"))
	require.NoError(t, err)
	assert.Equal(t, math.Inf(1), cpus)

	cpus, err = kernel.ParseCPUMax([]byte("1000 1000000\n"))
	require.NoError(t, err)
	assert.Equal(t, 0.001, cpus)
}

func TestParseCFSQuota(t *testing.T) {
	cpus, err := kernel.ParseCFSQuota([]byte("-1\n"), []byte("100000\n"))
	require.NoError(t, err)
	assert.Equal(t, math.Inf(1), cpus)

	cpus, err = kernel.ParseCFSQuota([]byte("250000\n"), []byte("100000\n"))
	require.NoError(t, err)
	assert.Equal(t, 2.5, cpus)
}

func TestQuotasNameBadInput(t *testing.T) {
	for text, message := range map[string]string{
		"":                                 `period: "" is cut short`,
		"max\n":                            `period: "" is cut short`,
		"max 100000":                       `period: "100000" is cut short`,
		"50000 -100000\n":                  `period: "-100000"`,
		"-1 100000\n":                      `quota: "-1"`,
		"0 100000\n":                       "quota 0 in a period of 100000",
		"50000 0\n":                        "quota 50000 in a period of 0",
		"99999999999999999999 100000\n":    `quota: "99999999999999999999"`,
		"50000 100000 7\n":                 `period: "100000 7"`,
		"garbage 100000\n":                 `quota: "garbage"`,
		"\xff\xfe 100000\n":                `quota: "\xff\xfe"`,
		"50000 100000\nmore 1\n":           `period: "100000\nmore 1"`,
		"1e9 100000\n":                     `quota: "1e9"`,
		"9223372036854775807 1844674407\n": "", // the largest, without an error
	} {
		t.Run(text, func(t *testing.T) {
			cpus, err := kernel.ParseCPUMax([]byte(text))
			if message == "" {
				require.NoError(t, err)
				assert.Positive(t, cpus)
				return
			}
			require.ErrorContains(t, err, message)
		})
	}
	_, err := kernel.ParseCFSQuota([]byte("25000"), []byte("100000\n"))
	require.ErrorContains(t, err, `quota: "25000" is cut short`)
	_, err = kernel.ParseCFSQuota([]byte("-2\n"), []byte("100000\n"))
	require.ErrorContains(t, err, `quota: "-2"`)
}

func TestCPULimitNamesTheGroup(t *testing.T) {
	cgroup := kernel.Cgroup{Unified: true, Directories: []string{"c/a", "c"}}
	_, err := cgroup.CPULimit(fstest.MapFS{"c/cpu.max": text("broken\n")})
	require.ErrorContains(t, err, "CPU quota of c: ")
}

func TestThrottling(t *testing.T) {
	const pod = "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod57d2.slice"
	for name, want := range map[string][]kernel.Throttling{
		"v1-container": {
			{Directory: "sys/fs/cgroup/cpuacct,cpu", Time: 21640113882 * time.Nanosecond, Periods: 418},
		},
		"v1-host": {
			{Directory: "sys/fs/cgroup/cpu,cpuacct/system.slice/api.service"},
			{Directory: "sys/fs/cgroup/cpu,cpuacct/system.slice", Time: 812 * time.Millisecond, Periods: 9},
			{Directory: "sys/fs/cgroup/cpu,cpuacct"},
		},
		"v2-container": {
			{Directory: "sys/fs/cgroup", Time: 188402113 * time.Microsecond, Periods: 3120},
		},
		// The own group's cpu.stat.local has what the pod's quota stopped of it.
		"v2-pod": {
			{Directory: pod + "/cri-containerd-ab12.scope", Time: 51200998 * time.Microsecond},
			{Directory: pod, Periods: 402},
			{Directory: "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice"},
			{Directory: "sys/fs/cgroup/kubepods.slice"},
		},
		"v2-host": nil, // no quota anywhere up to the root
		"hybrid": {
			{Directory: "sys/fs/cgroup/cpu/sandbox", Time: 5359275959 * time.Nanosecond, Periods: 30},
			{Directory: "sys/fs/cgroup/cpu"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := tree(t, name)
			cgroup, err := new(kernel.CgroupFinder).Find(files, "cpu")
			require.NoError(t, err)
			reading, err := cgroup.Throttling(files)
			require.NoError(t, err)
			assert.Equal(t, want, reading.Levels)
			assert.Equal(t, cgroup.Directories[0], reading.Group)
			// Of these, only the containers see no more than their own group, on a
			// kernel that does not count what others stop of it.
			assert.Equal(t, strings.HasSuffix(name, "-container"), reading.Unseen != "", reading.Unseen)
		})
	}
}

func TestThrottlingOfTheNearestGroupWithTheController(t *testing.T) {
	reading, err := kernel.Cgroup{Unified: true, Directories: []string{"c/a/b", "c/a", "c"}}.Throttling(fstest.MapFS{
		"c/a/b/cpu.stat":       text("usage_usec 5\n"),
		"c/a/b/cpu.stat.local": text(""),
		"c/a/cpu.stat":         text("usage_usec 5\nnr_throttled 1\nthrottled_usec 10\n"),
		"c/a/cpu.stat.local":   text("throttled_usec 25\n"),
		"c/cpu.stat":           text("usage_usec 5\nnr_throttled 2\nthrottled_usec 20\n"),
		"c/cpu.stat.local":     text("throttled_usec 30\n"),
	})
	require.NoError(t, err)
	assert.Equal(t, []kernel.Throttling{
		{Directory: "c/a", Time: 25 * time.Microsecond, Periods: 1},
		{Directory: "c", Periods: 2},
	}, reading.Levels)
	assert.Empty(t, reading.Unseen)
}

func TestThrottlingThatCannotBeKnown(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup kernel.Cgroup
		files  fstest.MapFS
	}{
		"a container without the controller, which may have a limit above": {
			kernel.Cgroup{Unified: true, Directories: []string{"c"}},
			fstest.MapFS{
				"c/cgroup.controllers": text("memory\n"), "c/cgroup.events": text("populated 1\n"),
				"c/cpu.stat": text("usage_usec 5\n"),
			},
		},
		"a v1 kernel without quotas": {
			kernel.Cgroup{Directories: []string{"c"}}, fstest.MapFS{"c/cpu.shares": text("1024\n")},
		},
		"nothing there": {
			kernel.Cgroup{Unified: true, Directories: []string{"c"}}, fstest.MapFS{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reading, err := c.cgroup.Throttling(c.files)
			require.NoError(t, err)
			assert.Empty(t, reading.Levels)
			assert.Contains(t, reading.Unseen, "c: what is above cannot be seen")
		})
	}
}

func TestThrottlingNamesBadInput(t *testing.T) {
	for content, message := range map[string]string{
		"throttled_usec":                        `c/cpu.stat: "throttled_usec" is no key`,
		"usage_usec 9\nthrottled_us":            `c/cpu.stat: "throttled_us" is no key`,
		"usage_usec 9\nuser_usec 5":             `c/cpu.stat: no throttled_usec in 24 bytes that are cut short`,
		"throttled_usec\n":                      `c/cpu.stat: "throttled_usec\n" is no key`,
		"throttled_usec 12":                     `throttled_usec: "12" is cut short`,
		"throttled_usec -1\n":                   `throttled_usec: "-1"`,
		"throttled_usec 9223372036854775807\n":  `throttled_usec: 9223372036854775807 is more than 292 years`,
		"throttled_usec 18446744073709551615\n": `throttled_usec: "18446744073709551615"`,
		"nr_throttled x\nthrottled_usec 1\n":    `nr_throttled: "x"`,
	} {
		t.Run(content, func(t *testing.T) {
			_, err := kernel.Cgroup{Unified: true, Directories: []string{"c"}}.Throttling(
				fstest.MapFS{"c/cpu.stat": text(content)})
			require.ErrorContains(t, err, message)
		})
	}
	_, err := kernel.Cgroup{Unified: true, Directories: []string{"c"}}.Throttling(fstest.MapFS{
		"c/cpu.stat": text("throttled_usec 1\n"), "c/cpu.stat.local": text("throttled_usec no\n"),
	})
	require.ErrorContains(t, err, `c/cpu.stat.local: throttled_usec: "no"`)
}

func FuzzParseCPUMax(f *testing.F) {
	f.Add([]byte("50000 100000\n"))
	f.Add([]byte("max 100000\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		cpus, err := kernel.ParseCPUMax(text)
		if err == nil {
			assert.Positive(t, cpus) // no NaN either
		} else {
			assert.Zero(t, cpus)
		}
	})
}

func FuzzParseCFSQuota(f *testing.F) {
	f.Add([]byte("50000\n"), []byte("100000\n"))
	f.Add([]byte("-1\n"), []byte("100000\n"))
	f.Fuzz(func(t *testing.T, quota, period []byte) {
		cpus, err := kernel.ParseCFSQuota(quota, period)
		if err == nil {
			assert.Positive(t, cpus)
		} else {
			assert.Zero(t, cpus)
		}
	})
}

func FuzzParseCPUStat(f *testing.F) {
	f.Add([]byte("usage_usec 9\nnr_periods 10412\nnr_throttled 3120\nthrottled_usec 188402113\n"), true)
	f.Add([]byte("nr_periods 5230\nnr_throttled 418\nthrottled_time 21640113882\n"), false)
	f.Fuzz(func(t *testing.T, text []byte, unified bool) {
		throttled, periods, found, err := kernel.ParseCPUStat(text, unified)
		assert.GreaterOrEqual(t, throttled, time.Duration(0))
		assert.GreaterOrEqual(t, periods, int64(0))
		if !found || err != nil {
			assert.Zero(t, throttled)
			assert.Zero(t, periods)
		}
	})
}
