package client_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gym-observer/observer/client"
)

// What limits the stack, from the driver's address alone.
func ExampleFollow() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	chain, err := client.Follow(ctx, "driver:6060", client.WithPort(6060))
	if err != nil {
		fmt.Printf("%q\n", err)
		return
	}
	fmt.Printf("%q\n", chain.Summary) // the words of strangers: quoted
}
