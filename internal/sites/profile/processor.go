package profile

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"time"

	"github.com/gym-observer/observer/internal/sites"
)

// The processor is watched until there are 200 samples, which give a share of a
// half to within 7 points (two standard deviations), or for 5 s: half a window.
const (
	enough  = 200 * samplePeriod
	longest = 5 * time.Second
)

// samplePeriod is what runtime/pprof asks the kernel for: 100 samples for each
// second of processor time.
const samplePeriod = 10 * time.Millisecond

// fewest is how many samples a share is told from: with less a site of a third
// can look like the largest of two.
const fewest = 20

// Processor are the sites that use the processor, in processors, and the profile, of
// its stacks alone, as go tool pprof reads it. It returns after
// enough samples, at most 5 s, or when ctx is done; used is the processor time of
// this process so far, or nil where it is not known. Where somebody profiles
// already it returns that error at once; while it runs, /debug/pprof/profile
// answers 500.
func Processor(ctx context.Context, reader *sites.Reader, used func() time.Duration) (found []sites.Site, profile []byte, err error) {
	recorded, lasted, err := record(ctx, used)
	if err != nil {
		return nil, nil, err
	}
	stacks, err := parse(recorded)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the processor's profile: %w", err)
	}
	profile, err = encode(stacks, lasted)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the processor's profile: %w", err)
	}
	samples := 0
	var tally sites.Tally
	for _, s := range stacks {
		samples += s.Count
		tally.Add(reader.Named(sites.KindCPU, s.Frames, float64(s.Count)*samplePeriod.Seconds()))
	}
	if samples < fewest {
		return nil, profile, fmt.Errorf("the processor's profile has %d samples in %.1f s, too few to tell a share", samples, lasted.Seconds())
	}
	return tally.Sites(sites.KindCPU, lasted.Seconds()), profile, nil
}

func record(ctx context.Context, used func() time.Duration) ([]byte, time.Duration, error) {
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		return nil, 0, fmt.Errorf("somebody else profiles the processor: %w", err)
	}
	began, before := time.Now(), time.Duration(0)
	if used != nil {
		before = used()
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	end := time.NewTimer(longest)
	defer end.Stop()
	for going := true; going; {
		select {
		case <-ctx.Done():
			going = false
		case <-end.C:
			going = false
		case <-look.C:
			going = used == nil || used()-before < enough
		}
	}
	lasted := time.Since(began)
	pprof.StopCPUProfile()
	return profile.Bytes(), lasted, nil
}
