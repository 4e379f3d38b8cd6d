package kernel_test

import (
	"errors"
	"io/fs"
	"path"
	"testing"
	"testing/fstest"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFindCgroup(t *testing.T) {
	const pod = "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod57d2.slice"
	for _, c := range []struct {
		tree, controller string
		want             kernel.Cgroup
	}{
		{"v1-container", "cpu", kernel.Cgroup{Directories: []string{"sys/fs/cgroup/cpuacct,cpu"}}},
		{"v1-container", "memory", kernel.Cgroup{Directories: []string{"sys/fs/cgroup/memory"}}},
		{"v1-host", "cpu", kernel.Cgroup{Directories: []string{
			"sys/fs/cgroup/cpu,cpuacct/system.slice/api.service",
			"sys/fs/cgroup/cpu,cpuacct/system.slice",
			"sys/fs/cgroup/cpu,cpuacct",
		}}},
		{"v2-container", "cpu", kernel.Cgroup{Unified: true, Directories: []string{"sys/fs/cgroup"}}},
		{"v2-host", "memory", kernel.Cgroup{Unified: true, Directories: []string{
			"sys/fs/cgroup/system.slice/api.service", "sys/fs/cgroup/system.slice", "sys/fs/cgroup",
		}}},
		{"v2-pod", "cpu", kernel.Cgroup{Unified: true, Directories: []string{
			pod + "/cri-containerd-ab12.scope", pod, path.Dir(pod), path.Dir(path.Dir(pod)), "sys/fs/cgroup",
		}}},
		{"hybrid", "cpu", kernel.Cgroup{Directories: []string{"sys/fs/cgroup/cpu/sandbox", "sys/fs/cgroup/cpu"}}},
		{"hybrid", "hugetlb", kernel.Cgroup{Unified: true, Directories: []string{"sys/fs/cgroup/unified"}}},
	} {
		t.Run(c.tree+"/"+c.controller, func(t *testing.T) {
			cgroup, err := new(kernel.CgroupFinder).Find(tree(t, c.tree), c.controller)
			require.NoError(t, err)
			assert.Equal(t, c.want, cgroup)
		})
	}
}

func TestParseCgroupPaths(t *testing.T) {
	const v2 = " - cgroup2 cgroup rw\n"
	for name, c := range map[string]struct {
		group, mounts string
		want          []string // the own group's directories, best first; none where it is not visible
	}{
		"the mount's root itself":     {"/docker/1", "9 1 0:9 /docker/1 /sys/fs/cgroup rw" + v2, []string{"sys/fs/cgroup"}},
		"below the mount's root":      {"/docker/1/a", "9 1 0:9 /docker/1 /sys/fs/cgroup rw" + v2, []string{"sys/fs/cgroup/a"}},
		"beside the mount's root":     {"/docker/2", "9 1 0:9 /docker/1 /sys/fs/cgroup rw" + v2, nil},
		"a name that begins alike":    {"/docker/12", "9 1 0:9 /docker/1 /sys/fs/cgroup rw" + v2, nil},
		"above the mount's root":      {"/docker", "9 1 0:9 /docker/1 /sys/fs/cgroup rw" + v2, nil},
		"session moved (podman)":      {"/user.slice/session-3.scope", "9 1 0:9 /user.slice/session-50.scope /sys/fs/cgroup rw" + v2, nil},
		"outside the namespace":       {"/../2", "9 1 0:9 / /sys/fs/cgroup rw" + v2, nil},
		"mounted from its parent":     {"/../2", "9 1 0:9 /.. /sys/fs/cgroup rw" + v2, []string{"sys/fs/cgroup/2"}},
		"the host's tree in a mount":  {"/", "9 1 0:9 /../../.. /host/cgroup rw" + v2, nil},
		"a colon in the path":         {"/a:b", "9 1 0:9 / /sys/fs/cgroup rw" + v2, []string{"sys/fs/cgroup/a:b"}},
		"a space where it is mounted": {"/a", `9 1 0:9 / /my\040cgroups\134x rw` + v2, []string{`my cgroups\x/a`}},
		"optional fields":             {"/a", "9 1 0:9 / /c rw shared:1 master:2 propagate_from:3" + v2, []string{"c/a"}},
		"mounted at the root":         {"/a", "9 1 0:9 / / rw" + v2, []string{"a"}},
		"not mounted":                 {"/a", "9 1 0:9 / / rw - ext4 /dev/sda1 rw\n", nil},
		"the mount that shows most comes first": {
			"/docker/1",
			"9 1 0:9 /docker/1 /sys/fs/cgroup rw" + v2 + "10 1 0:9 / /host/cgroup rw" + v2,
			[]string{"host/cgroup/docker/1", "sys/fs/cgroup"},
		},
		"of equal mounts the last comes first": {
			"/", "9 1 0:9 / /a rw" + v2 + "10 1 0:9 / /b rw" + v2, []string{"b", "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			candidates, err := kernel.ParseCgroup([]byte("0::"+c.group+"\n"), []byte(c.mounts), "cpu")
			if c.want == nil {
				require.ErrorIs(t, err, errors.ErrUnsupported)
				return
			}
			require.NoError(t, err)
			var own []string
			for _, candidate := range candidates {
				own = append(own, candidate.Directories[0])
			}
			assert.Equal(t, c.want, own)
		})
	}
}

func TestParseCgroupTakesOnlyTheControllersHierarchy(t *testing.T) {
	cgroup := []byte("4:cpuset:/sets\n3:cpu,cpuacct:/own\n1:name=cpu:/named\n0::/unified\n")
	mounts := []byte("9 1 0:9 / /sets rw - cgroup cgroup rw,cpuset\n" +
		"10 1 0:10 / /cpu rw - cgroup cgroup rw,cpuacct,cpu\n" +
		"11 1 0:11 / /named rw - cgroup cgroup rw,name=cpu\n" +
		"12 1 0:12 / /v2 rw - cgroup2 cgroup2 rw\n")
	candidates, err := kernel.ParseCgroup(cgroup, mounts, "cpu")
	require.NoError(t, err)
	assert.Equal(t, []kernel.Cgroup{{Directories: []string{"cpu/own", "cpu"}}}, candidates)
}

func TestParseCgroupNamesBadInput(t *testing.T) {
	const mount = "9 1 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
	for name, c := range map[string]struct{ cgroup, mounts, message string }{
		"empty":               {"", mount, "controller cpu: no hierarchy"},
		"other controllers":   {"3:pids:/a\n", mount, "controller cpu: no hierarchy"},
		"cut short":           {"0::/sys", mount, `"0::/sys"`},
		"two fields":          {"0:/a\n", mount, `"0:/a"`},
		"no path":             {"0::relative\n", mount, `"0::relative"`},
		"garbage":             {"\x00\xff\n", mount, `"\x00\xff"`},
		"mount cut short":     {"0::/\n", mount + "10 1 0:10 / /x", `"10 1 0:10 / /x"`},
		"mount without type":  {"0::/\n", "10 1 0:10 / /x rw - \n", `"10 1 0:10 / /x rw - \n"`},
		"mount without point": {"0::/\n", "10 1 0:10 / - cgroup2 cgroup rw\n", `"10 1 0:10 / - cgroup2 cgroup rw\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kernel.ParseCgroup([]byte(c.cgroup), []byte(c.mounts), "cpu")
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestFindCgroupPassesOverAHiddenMount(t *testing.T) {
	files := fstest.MapFS{
		"proc/self/cgroup": text("0::/a\n"),
		"proc/self/mountinfo": text("9 1 0:9 / /seen rw - cgroup2 cgroup rw\n" +
			"10 1 0:9 / /hidden rw - cgroup2 cgroup rw\n"),
		"seen/a/cpu.max":        text("max 100000\n"),
		"hidden/something/else": text(""),
	}
	cgroup, err := new(kernel.CgroupFinder).Find(files, "cpu")
	require.NoError(t, err)
	assert.Equal(t, []string{"seen/a", "seen"}, cgroup.Directories)
}

func TestFindCgroupWithoutFiles(t *testing.T) {
	_, err := new(kernel.CgroupFinder).Find(fstest.MapFS{}, "cpu")
	require.ErrorIs(t, err, fs.ErrNotExist)

	_, err = new(kernel.CgroupFinder).Find(fstest.MapFS{"proc/self/cgroup": text("0::/\n")}, "cpu")
	require.ErrorIs(t, err, fs.ErrNotExist)

	_, err = new(kernel.CgroupFinder).Find(fstest.MapFS{"proc/self/cgroup": text("")}, "cpu")
	require.ErrorIs(t, err, fs.ErrNotExist)

	_, err = new(kernel.CgroupFinder).Find(fstest.MapFS{ // the group's directory was removed
		"proc/self/cgroup":    text("0::/gone (deleted)\n"),
		"proc/self/mountinfo": text("9 1 0:9 / /c rw - cgroup2 cgroup rw\n"),
		"c/cgroup.procs":      text(""),
	}, "cpu")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "gone (deleted)")
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("3:cpu,cpuacct:/docker/1\n0::/\n"), []byte("9 1 0:9 /docker/1 /c rw - cgroup cgroup rw,cpu\n"))
	f.Add([]byte("0::/../a/../b\n"), []byte("9 1 0:9 /.. /c\\040d rw - cgroup2 cgroup rw\n"))
	f.Fuzz(func(t *testing.T, cgroup, mounts []byte) {
		candidates, err := kernel.ParseCgroup(cgroup, mounts, "cpu")
		if err != nil {
			assert.Empty(t, candidates)
			return
		}
		require.NotEmpty(t, candidates)
		for _, candidate := range candidates {
			require.NotEmpty(t, candidate.Directories)
			top := candidate.Directories[len(candidate.Directories)-1]
			for _, directory := range candidate.Directories {
				assert.Equal(t, path.Clean(directory), directory)
				assert.False(t, path.IsAbs(directory), directory)
				assert.NotContains(t, "/"+directory+"/", "/../")
				if top != "." {
					assert.Contains(t, directory+"/", top+"/")
				}
			}
		}
	})
}

func TestCgroupFinderFollowsTheProcess(t *testing.T) {
	files := fstest.MapFS{
		"proc/self/cgroup":    text("0::/a\n"),
		"proc/self/mountinfo": text("9 1 0:9 / /one rw - cgroup2 cgroup rw\n"),
		"one/a/cpu.max":       text("max 100000\n"),
		"one/b/cpu.max":       text("max 100000\n"),
	}
	var finder kernel.CgroupFinder
	find := func() string {
		cgroup, err := finder.Find(files, "cpu")
		require.NoError(t, err)
		return cgroup.Directories[0]
	}
	assert.Equal(t, "one/a", find())

	mountinfo := files["proc/self/mountinfo"]
	delete(files, "proc/self/mountinfo")
	assert.Equal(t, "one/a", find(), "the mounts are not read again")

	files["proc/self/mountinfo"] = mountinfo
	files["proc/self/cgroup"] = text("0::/b\n")
	assert.Equal(t, "one/b", find(), "the process was moved")

	delete(files, "one/b/cpu.max")
	files["two/b/cpu.max"] = text("max 100000\n")
	files["proc/self/mountinfo"] = text("9 1 0:9 / /two rw - cgroup2 cgroup rw\n")
	assert.Equal(t, "two/b", find(), "the hierarchy was mounted elsewhere")

	delete(files, "two/b/cpu.max")
	_, err := finder.Find(files, "cpu")
	assert.ErrorIs(t, err, errors.ErrUnsupported)
}
