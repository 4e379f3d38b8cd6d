// Command profiling is linked by a test, which looks at what is in it.
package main

import (
	"context"

	"github.com/gym-observer/observer"
)

func main() {
	defer observer.Start(context.Background(), "profiling", observer.WithProfiles()).Stop()
}
