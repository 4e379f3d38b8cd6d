package main

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
)

// drive runs twice as many rollouts as the limit takes, until ctx ends.
func drive(ctx context.Context) {
	const limit = 2
	admission := observer.NewMeteredAdmission(semaphore.NewWeighted(limit))
	for range 2 * limit {
		go func() {
			for ctx.Err() == nil {
				rollout(ctx, admission)
			}
		}()
	}
	for ctx.Err() == nil {
		giveUp(ctx, admission)
		time.Sleep(pause)
	}
}

func rollout(ctx context.Context, admission *observer.MeteredAdmission) {
	driver := observer.Driver()
	driver.RecordMaterialize(ctx, time.Millisecond)
	driver.Offer(1)
	_ = driver.CountResident(func() error {
		return admission.Do(ctx, func(ctx context.Context) error {
			time.Sleep(pause)
			end := driver.BeginOutputWrite(ctx)
			defer end(2048)
			driver.RecordRollout(ctx, observer.RolloutSize{InputItems: 3, OutputItems: 5, Turns: 2, ToolCalls: 4})
			return nil
		})
	})
}

// giveUp waits for the limit, but not as long as it takes.
func giveUp(ctx context.Context, admission *observer.MeteredAdmission) {
	ctx, leave := context.WithTimeout(ctx, time.Millisecond)
	defer leave()
	if release, err := admission.Admit(ctx); err == nil {
		release()
	}
}
