// Command bench measures package observer beside what a user would pick
// instead, and beside doing nothing, all in one run:
//
//	go -C bench run .
//
// It prints the tables of BENCHMARKS.md, which says how to read them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		exit(runChild(os.Args[2:]))
	}
	exit(run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run() error {
	rounds := flag.Int("rounds", 0, "how often everything is measured, at least 8 (default 12)")
	pairs := flag.Int("pairs", 0, "pairs of windows of each throughput (default 40)")
	only := flag.String("only", "", "measure only the families whose name matches this `regexp`")
	quick := flag.Bool("quick", false, "look whether everything works: few and short rounds, good for no verdict")
	write := flag.String("write", "", "put the output into this `file` too, between its two table marks")
	flag.Parse()

	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	e := thorough
	if *quick {
		e = cursory
	}
	if *rounds > 0 {
		e.rounds = *rounds
	}
	if *pairs > 0 {
		e.pairs = *pairs
	}
	if !*quick && e.rounds < 8 {
		return fmt.Errorf("%d rounds are too few for a median: at least 8, or -quick", e.rounds)
	}

	var chosen []*family
	for _, f := range families() {
		if wanted.MatchString(f.name) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no family matches %q", *only)
	}

	before := loadAverage()
	began := time.Now()
	all := measure(chosen, e)
	var out strings.Builder
	fmt.Fprintf(&out, "%s; load average %s before, %s after %v; %d rounds, %d pairs.\n\n",
		machine(), before, loadAverage(), time.Since(began).Round(time.Second), e.rounds, e.pairs)
	writeTargets(&out, all, all.best(chosen))
	for _, f := range chosen {
		writeFamily(&out, f, all)
	}
	fmt.Print(out.String())
	if *write != "" {
		return replaceTable(*write, out.String())
	}
	return nil
}

const tableBegins, tableEnds = "<!-- table -->\n", "<!-- /table -->\n"

// replaceTable puts text between the two marks of a file.
func replaceTable(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, begins := strings.Cut(string(old), tableBegins)
	_, tail, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return errors.New(path + " has no place for the table")
	}
	return os.WriteFile(path, []byte(head+tableBegins+"\n"+text+tableEnds+tail), 0o644)
}
