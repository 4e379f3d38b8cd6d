package kernel_test

import (
	"errors"
	"math"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThrottlingTotal(t *testing.T) {
	type levels = []kernel.Throttling
	for name, c := range map[string]struct {
		readings []levels
		want     kernel.Throttled
	}{
		"the first reading is where it starts": {
			[]levels{{{"a", 100, 10}}},
			kernel.Throttled{},
		},
		"differences add up": {
			[]levels{{{"a", 100, 10}}, {{"a", 130, 11}}, {{"a", 135, 13}}},
			kernel.Throttled{Time: 35, Periods: 3},
		},
		"a container and its pod at the same time count once": {
			[]levels{{{"p/a", 0, 0}, {"p", 0, 0}}, {{"p/a", 90, 9}, {"p", 80, 10}}},
			kernel.Throttled{Time: 90, Periods: 10},
		},
		"one after the other both count": {
			[]levels{
				{{"p/a", 500, 5}, {"p", 0, 0}}, {{"p/a", 510, 6}, {"p", 0, 0}}, {{"p/a", 510, 6}, {"p", 20, 2}},
			},
			kernel.Throttled{Time: 30, Periods: 3},
		},
		"another group is another start": {
			[]levels{{{"a", 100, 10}}, {{"b", 900, 90}}, {{"b", 905, 91}}},
			kernel.Throttled{Time: 5, Periods: 1},
		},
		"a group made anew does not take away": {
			[]levels{{{"a", 100, 10}}, {{"a", 150, 15}}, {{"a", 3, 1}}, {{"a", 4, 2}}},
			kernel.Throttled{Time: 51, Periods: 6},
		},
		"no quota": {
			[]levels{nil, nil},
			kernel.Throttled{},
		},
		"a total that overflows stays": {
			[]levels{{{"a", 0, 0}}, {{"a", math.MaxInt64, 1}}, {{"a", 0, 1}}, {{"a", math.MaxInt64, 1}}},
			kernel.Throttled{Time: math.MaxInt64, Periods: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var total kernel.ThrottlingTotal
			var got kernel.Throttled
			for _, levels := range c.readings {
				reading := kernel.ThrottlingReading{Levels: levels}
				if len(levels) > 0 {
					reading.Group = levels[0].Directory
				}
				got = total.Add(reading)
			}
			got.Unseen = "" // see TestH66
			assert.Equal(t, c.want, got)
		})
	}
}

func TestH66QuotaOutsideOfTheNamespace(t *testing.T) {
	const mounts = "9 1 0:9 / /c rw - cgroup2 cgroup rw\n"
	files := func(more fstest.MapFS) fstest.MapFS {
		all := fstest.MapFS{
			"proc/self/cgroup": text("0::/own\n"), "proc/self/mountinfo": text(mounts),
			"c/cgroup.controllers": text("cpu\n"), "c/cgroup.events": text("populated 1\n"),
			"c/cpu.stat":     text("usage_usec 5\nnr_throttled 1\nthrottled_usec 10\n"),
			"c/own/cpu.stat": text("usage_usec 5\nnr_throttled 0\nthrottled_usec 0\n"), "c/own/cgroup.type": text("domain\n"),
		}
		for name, file := range more {
			all[name] = file
		}
		return all
	}
	without := func(all fstest.MapFS, name string) fstest.MapFS {
		delete(all, name)
		return all
	}
	for name, c := range map[string]struct {
		files  fstest.MapFS
		unseen string
	}{
		"a kernel before 6.6": {files(nil), "c: what is above cannot be seen"},
		"a kernel that counts what others stop": {
			files(fstest.MapFS{"c/own/cpu.stat.local": text("throttled_usec 0\n")}), "",
		},
		"up to the root of the hierarchy": {without(files(nil), "c/cgroup.events"), ""},
		"a threaded group": {
			files(fstest.MapFS{"c/own/cpu.stat.local": text("throttled_usec 0\n"), "c/own/cgroup.type": text("threaded\n")}),
			"c/own: its threads may be in several groups",
		},
		"the top of a threaded subtree": {
			without(files(fstest.MapFS{"c/own/cgroup.type": text("domain threaded\n")}), "c/cgroup.events"),
			"c/own: its threads may be in several groups",
		},
		"outside of the namespace itself": {
			files(fstest.MapFS{"proc/self/cgroup": text("0::/../own\n")}), `group "/../own" is below none of 1 mounts`,
		},
		"the mount from before the namespace": {
			files(fstest.MapFS{"proc/self/cgroup": text("0::/\n"), "proc/self/mountinfo": text("9 1 0:9 /../.. /c rw - cgroup2 none rw\n")}),
			`group "/" is below none of 1 mounts, from outside of the cgroup namespace`,
		},
		"a hybrid tree whose cpu controller is not mounted": {
			files(fstest.MapFS{"proc/self/cgroup": text("4:cpu,cpuacct:/own\n0::/own\n")}), `group "/own" is below none of 0 mounts`,
		},
		"v1 in a container": {
			fstest.MapFS{
				"proc/self/cgroup":    text("4:cpu,cpuacct:/docker/1\n"),
				"proc/self/mountinfo": text("9 1 0:9 /docker/1 /cpu rw - cgroup cgroup rw,cpu,cpuacct\n"),
				"cpu/cpu.stat":        text("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"),
			}, "cpu: what is above cannot be seen",
		},
		"v1 up to the root": {
			fstest.MapFS{
				"proc/self/cgroup":            text("4:cpu,cpuacct:/a\n"),
				"proc/self/mountinfo":         text("9 1 0:9 / /cpu rw - cgroup cgroup rw,cpu,cpuacct\n"),
				"cpu/a/cpu.stat":              text("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"),
				"cpu/cgroup.sane_behavior":    text("0\n"),
				"cpu/something/else/cpu.stat": text(""),
			}, "",
		},
		"no hierarchy with the controller": {files(fstest.MapFS{"proc/self/cgroup": text("3:pids:/own\n")}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			reading, err := new(kernel.CgroupFinder).Throttling(c.files)
			require.NoError(t, err)
			if c.unseen == "" {
				assert.Empty(t, reading.Unseen)
			} else {
				assert.Contains(t, reading.Unseen, c.unseen)
			}
			var total kernel.ThrottlingTotal
			assert.Equal(t, reading.Unseen, total.Add(reading).Unseen)
			assert.Equal(t, reading.Unseen, total.Add(reading).Unseen)
		})
	}
	_, err := new(kernel.CgroupFinder).Throttling(fstest.MapFS{})
	require.Error(t, err, "no /proc")
	_, err = new(kernel.CgroupFinder).Throttling(files(fstest.MapFS{"proc/self/cgroup": text("garbage\n")}))
	require.Error(t, err)
	require.NotErrorIs(t, err, errors.ErrUnsupported)
}

func TestH66ProcessMovedInTheWindow(t *testing.T) {
	reading := func(group string, levels ...kernel.Throttling) kernel.ThrottlingReading {
		return kernel.ThrottlingReading{Group: group, Levels: levels}
	}
	var total kernel.ThrottlingTotal
	for i, c := range []struct {
		reading kernel.ThrottlingReading
		time    time.Duration
		unseen  string
	}{
		{reading("a", kernel.Throttling{"a", 100, 10}), 0, ""},
		{reading("a", kernel.Throttling{"a", 120, 12}), 20, ""},
		{reading("b", kernel.Throttling{"b", 500, 50}), 20, `moved from "a" to "b"`},
		{reading("b", kernel.Throttling{"b", 510, 51}), 30, ""},
		{reading("b", kernel.Throttling{"b", 3, 1}), 30, "b was made anew"},
		{reading("b", kernel.Throttling{"b", 4, 1}), 31, ""},
		{reading("b", kernel.Throttling{"b", 4, 1}, kernel.Throttling{"", 9, 9}), 31, "enabled or disabled"},
		{reading("b", kernel.Throttling{"b", 4, 1}, kernel.Throttling{"", 9, 9}), 31, ""},
		{kernel.ThrottlingReading{Group: "b", Unseen: "hidden"}, 31, "hidden"},
		{reading("b", kernel.Throttling{"b", 4, 1}), 31, "enabled or disabled"},
		{reading("c"), 31, `moved from "b" to "c"`},
		{reading("d"), 31, `moved from "c" to "d"`},
		{reading("d"), 31, ""},
	} {
		got := total.Add(c.reading)
		assert.Equal(t, c.time, got.Time, "reading %d", i+1)
		if c.unseen == "" {
			assert.Empty(t, got.Unseen, "reading %d", i+1)
		} else {
			assert.Contains(t, got.Unseen, c.unseen, "reading %d", i+1)
		}
	}
}
