package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"time"
)

// CPULimit returns how many processors' time the process may use: the smallest
// quota of its group and the ancestors, +Inf where none has one. A group without
// such files, like the root or one for which the controller is not enabled, has
// no quota.
//
// A quota does not say which processors; that is the affinity mask, which
// runtime.NumCPU follows.
func (c Cgroup) CPULimit(fsys fs.FS) (cpus float64, err error) {
	cpus = math.Inf(1)
	for _, directory := range c.Directories {
		limit, err := c.quota(fsys, directory)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("CPU quota of %s: %w", directory, err)
		}
		cpus = min(cpus, limit)
	}
	return cpus, nil
}

// quota returns the quota of one group, in processors.
func (c Cgroup) quota(fsys fs.FS, directory string) (cpus float64, err error) {
	if c.Unified {
		text, err := fs.ReadFile(fsys, path.Join(directory, "cpu.max"))
		if err != nil {
			return 0, err
		}
		return ParseCPUMax(text)
	}
	quota, err := fs.ReadFile(fsys, path.Join(directory, "cpu.cfs_quota_us"))
	if err != nil {
		return 0, err
	}
	period, err := fs.ReadFile(fsys, path.Join(directory, "cpu.cfs_period_us"))
	if err != nil {
		return 0, err
	}
	return ParseCFSQuota(quota, period)
}

// ParseCPUMax returns how many processors the text of a v2 cpu.max allows, such
// as 0.5 for "50000 100000", quota and period in microseconds, and +Inf for
// "max 100000".
func ParseCPUMax(text []byte) (cpus float64, err error) {
	quota, period, _ := bytes.Cut(text, []byte(" "))
	return perPeriod(quota, period, "max")
}

// ParseCFSQuota returns how many processors the texts of a v1 cpu.cfs_quota_us
// and cpu.cfs_period_us allow, and +Inf for a quota of -1.
func ParseCFSQuota(quota, period []byte) (cpus float64, err error) {
	number, complete := bytes.CutSuffix(quota, []byte("\n"))
	if !complete {
		return 0, fmt.Errorf("quota: %.32q is cut short", quota)
	}
	return perPeriod(number, period, "-1")
}

// perPeriod divides a quota by the period that ends a line.
func perPeriod(quota, period []byte, unlimited string) (cpus float64, err error) {
	every, err := parseLine(period)
	if err != nil {
		return 0, fmt.Errorf("period: %w", err)
	}
	if string(quota) == unlimited {
		return math.Inf(1), nil
	}
	used, err := parseCount(quota)
	if err != nil {
		return 0, fmt.Errorf("quota: %w", err)
	}
	if used == 0 || every == 0 { // the kernel takes 1 ms at least
		return 0, fmt.Errorf("quota %d in a period of %d", used, every)
	}
	return float64(used) / float64(every), nil
}

// Throttling is what one CPU quota has stopped since its group was made.
type Throttling struct {
	Directory string        // of the group
	Time      time.Duration // summed over the processors on which something had to wait
	Periods   int64         // periods of the quota in which it happened
}

// ThrottlingReading is what CPU quotas have stopped, as far as it can be seen.
type ThrottlingReading struct {
	Group  string       // the directory of the process's own group; "" where there is none to be seen
	Levels []Throttling // one for each group that can tell, the own group first

	// Unseen says where there may be a quota that was not seen; it is empty where
	// the reading is whole. What Levels have is then true as far as it goes: the
	// process was stopped at least that long. But no throttling does not mean
	// that there was none, and nothing else can be told from the run delay.
	Unseen string
}

// Throttling finds the process's group for the CPU and reads what has stopped it.
// A group that is not to be found gives a reading that is not whole: its quota is
// as little to be seen as the group. Where no hierarchy has the controller there
// can be no quota.
func (f *CgroupFinder) Throttling(fsys fs.FS) (ThrottlingReading, error) {
	group, err := f.Find(fsys, "cpu")
	switch {
	case errors.Is(err, ErrNoHierarchy):
		return ThrottlingReading{}, nil
	case errors.Is(err, errors.ErrUnsupported):
		return ThrottlingReading{Unseen: err.Error()}, nil
	case err != nil:
		return ThrottlingReading{}, err
	}
	return group.Throttling(fsys)
}

// Throttling reads what the quotas of the process's group and its ancestors have
// stopped. [ThrottlingTotal] adds readings up. There is no entry where there can
// be no quota, because the controller is enabled for none of the groups.
//
// Time is summed over processors already and must not be multiplied. A stop is
// added when it ends. The cpu.stat of a group has what its own quota stopped,
// and a pod's limit sits on the parent of its containers: so the ancestors
// count. From Linux 6.6 on a group's cpu.stat.local has what any quota, its own
// or one above it, stopped of its own threads. Where that exists it is the Time
// of the own group, and the Time of the others is 0.
//
// Without cpu.stat.local the reading is whole only if it reaches the root of the
// hierarchy: a container sees its own group and nothing above, and a quota there
// stops it all the same. Nor is it whole where the process may have its threads
// in several groups, since only the main thread's is looked at.
func (c Cgroup) Throttling(fsys fs.FS) (ThrottlingReading, error) {
	reading := ThrottlingReading{Group: c.Directories[0]}
	countsAbove := false // the first entry is from cpu.stat.local
	for _, directory := range c.Directories {
		level, enabled, err := c.throttling(fsys, directory, "cpu.stat")
		if err != nil {
			return ThrottlingReading{}, err
		}
		if !enabled {
			continue
		}
		if len(reading.Levels) == 0 {
			local, exists, err := c.throttling(fsys, directory, "cpu.stat.local")
			if err != nil {
				return ThrottlingReading{}, err
			}
			if countsAbove = exists; countsAbove {
				level.Time = local.Time
			}
		} else if countsAbove {
			level.Time = 0
		}
		reading.Levels = append(reading.Levels, level)
	}
	switch threaded, err := c.isThreaded(fsys); {
	case err != nil:
		return ThrottlingReading{}, err
	case threaded:
		reading.Unseen = fmt.Sprintf("%s: its threads may be in several groups", c.Directories[0])
	case !countsAbove && !c.reachesRoot(fsys):
		reading.Unseen = fmt.Sprintf("%s: what is above cannot be seen", c.Directories[len(c.Directories)-1])
	}
	return reading, nil
}

// isThreaded reports whether the own group takes part in a threaded subtree of
// v2: its cgroup.type is "threaded", or "domain threaded" where it is the top of
// one. (In v1 threads can be spread over groups without a sign of it.)
func (c Cgroup) isThreaded(fsys fs.FS) (bool, error) {
	if !c.Unified {
		return false, nil
	}
	name := path.Join(c.Directories[0], "cgroup.type")
	text, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // the root, or Linux before 4.14
	}
	if err != nil {
		return false, err
	}
	return bytes.HasSuffix(text, []byte("threaded\n")), nil
}

// throttling reads one file of one group. It finds nothing where the file is
// missing or the controller is not enabled.
func (c Cgroup) throttling(fsys fs.FS, directory, file string) (level Throttling, found bool, err error) {
	name := path.Join(directory, file)
	text, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Throttling{}, false, nil
	}
	if err != nil {
		return Throttling{}, false, err
	}
	level.Directory = directory
	level.Time, level.Periods, found, err = ParseCPUStat(text, c.Unified)
	if err != nil {
		return Throttling{}, false, fmt.Errorf("%s: %w", name, err)
	}
	return level, found, nil
}

// reachesRoot reports whether the last directory is the root of the hierarchy,
// not just of a cgroup namespace or of what is mounted. Of v2 only the root has
// no cgroup.events; of v1 only the root has a cgroup.sane_behavior.
func (c Cgroup) reachesRoot(fsys fs.FS) bool {
	top := c.Directories[len(c.Directories)-1]
	if !c.Unified {
		_, err := fs.Stat(fsys, path.Join(top, "cgroup.sane_behavior"))
		return err == nil
	}
	if _, err := fs.Stat(fsys, path.Join(top, "cgroup.controllers")); err != nil {
		return false
	}
	_, err := fs.Stat(fsys, path.Join(top, "cgroup.events"))
	return errors.Is(err, fs.ErrNotExist)
}

// ParseCPUStat returns the throttled time and periods in the text of a cpu.stat
// or cpu.stat.local. The v2 files have throttled_usec in microseconds, and only
// while the controller is enabled; those of v1 have throttled_time in
// nanoseconds. A cpu.stat.local has no periods.
func ParseCPUStat(text []byte, unified bool) (throttled time.Duration, periods int64, found bool, err error) {
	key, unit := "throttled_time", time.Nanosecond
	if unified {
		key, unit = "throttled_usec", time.Microsecond
	}
	count, found, err := keyed(text, key)
	if err != nil || !found {
		return 0, 0, false, err
	}
	if count > math.MaxInt64/int64(unit) {
		return 0, 0, false, fmt.Errorf("%s: %d is more than 292 years", key, count)
	}
	periods, _, err = keyed(text, "nr_throttled")
	if err != nil {
		return 0, 0, false, err
	}
	return time.Duration(count) * unit, periods, true, nil
}

// Throttled is what quotas have stopped of a process so far.
type Throttled struct {
	Time    time.Duration
	Periods int64

	// Unseen says why Time may have grown by too little since the reading
	// before; it is empty where all was seen.
	Unseen string
}

// ThrottlingTotal adds readings of [CgroupFinder.Throttling] up to one total for
// the process. The zero value is ready. It is not safe for concurrent use.
type ThrottlingTotal struct {
	last    ThrottlingReading
	started bool
	total   Throttled
}

// Add takes one reading and returns what was throttled since the first one, a
// total that never falls. A group's times from before the first reading may be
// another process's.
//
// Between two readings the total grows as much as the group that grew most. The
// sum over groups would count twice what a container and its pod, which often
// have the same quota, stopped at the same time.
//
// Where the process was moved between two readings nobody knows which of a
// group's times were its own: then the growth is not whole.
func (t *ThrottlingTotal) Add(reading ThrottlingReading) Throttled {
	t.total.Unseen = reading.Unseen
	if t.started && t.total.Unseen == "" {
		t.total.Unseen = reading.changed(t.last)
	}
	var grown Throttling
	for _, level := range reading.Levels {
		i := slices.IndexFunc(t.last.Levels, func(before Throttling) bool { return before.Directory == level.Directory })
		if i < 0 {
			continue // the first reading, or the process was moved
		}
		before := t.last.Levels[i]
		// A group that was made anew under the same name starts again at 0.
		grown.Time = max(grown.Time, level.Time-before.Time)
		grown.Periods = max(grown.Periods, level.Periods-before.Periods)
	}
	t.last, t.started = reading, true
	t.total.Time = add(t.total.Time, grown.Time)
	t.total.Periods = add(t.total.Periods, grown.Periods)
	return t.total
}

// changed says why the growth since before is not that of one place in the tree,
// "" where it is.
func (r ThrottlingReading) changed(before ThrottlingReading) string {
	if r.Group != before.Group {
		return fmt.Sprintf("moved from %q to %q", before.Group, r.Group)
	}
	if len(r.Levels) != len(before.Levels) {
		return fmt.Sprintf("%s: the controller was enabled or disabled", r.Group)
	}
	for i, level := range r.Levels {
		was := before.Levels[i]
		if level.Directory != was.Directory {
			return fmt.Sprintf("%s: the controller was enabled or disabled", r.Group)
		}
		if level.Time < was.Time || level.Periods < was.Periods {
			return fmt.Sprintf("%s was made anew", level.Directory)
		}
	}
	return ""
}
