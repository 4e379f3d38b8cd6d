// Command suites runs other people's test suites with the observer in their
// servers and clients, and compares what passes with and without it. See package
// suite. With names it runs those suites, otherwise all:
//
//	go -C e2e/suites run . -list
//	go -C e2e/suites run . chi net/http
//
// It ends with status 1 where a test differs that is not in suite/differences.txt,
// or a count is wrong. All of the suites take about an hour on two cores.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gym-observer/observer/e2e/suites/suite"
)

func main() {
	list := flag.Bool("list", false, "print the names of the suites and end")
	only := flag.String("modes", "", "the modes to run, with commas: server, inner, transport; all by default")
	library := flag.String("library", "../..", "the folder with the observer's sources")
	work := flag.String("work", "", "a folder to work in, which must be empty and is kept; otherwise one that is removed")
	flag.Parse()
	if *list {
		for _, s := range suite.All() {
			fmt.Println(s.Name, s.Module, s.Version, strings.Join(s.Packages, " "))
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := compare(ctx, flag.Args(), *only, *library, *work)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}

func compare(ctx context.Context, names []string, only, library, work string) (ok bool, err error) {
	suites, unknown := suite.Named(names)
	if len(unknown) > 0 {
		return false, fmt.Errorf("no suite is called %s; -list prints the names", strings.Join(unknown, ", "))
	}
	modes, err := suite.ParseModes(only)
	if err != nil {
		return false, err
	}
	if work == "" {
		work, err = os.MkdirTemp("", "suites-")
		if err != nil {
			return false, err
		}
		defer os.RemoveAll(work)
	}
	workshop, err := suite.Open(ctx, work, library, func(format string, values ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", values...)
	})
	if err != nil {
		return false, err
	}
	ok = true
	for _, s := range suites {
		results, err := workshop.Compare(ctx, s, modes)
		if err != nil {
			fmt.Fprintln(os.Stderr, err) // of this suite; the others may still tell something
			ok = false
		}
		for _, r := range results {
			show(r)
			ok = ok && len(r.Unlisted()) == 0 && len(r.Wrong) == 0
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	return ok, nil
}

func show(r suite.Result) {
	fmt.Println(r)
	for _, d := range r.Differences {
		if d.Reason != "" {
			fmt.Printf("   listed    %s: %s\n", d, d.Reason)
			continue
		}
		fmt.Printf("   DIFFERS   %s\n%s\n", d, d.Output)
	}
	for _, d := range r.Chance {
		fmt.Printf("   by chance %s\n", d)
	}
	for _, wrong := range r.Wrong {
		fmt.Printf("   WRONG     %s\n", wrong)
	}
}
