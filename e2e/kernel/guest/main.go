// Guest is the only program in the machine that the test starts: its init, which
// runs the cases; each case, in a process of its own; and the process that a case
// looks at.
package main

import (
	"fmt"
	"os"
	"slices"
)

func main() {
	args := os.Args[1:]
	switch {
	case os.Getpid() == 1:
		boot(args)
	case len(args) == 2 && args[0] == "case":
		runCase(args[1])
	case len(args) > 0 && args[0] == "enter":
		enter(args[1:])
	case len(args) > 0 && args[0] == "probe":
		probe(os.Stdin, os.Stdout)
	case len(args) > 0 && args[0] == "list":
		for _, c := range chosen(slices.Contains(args, "-whole")) {
			fmt.Println(c.name)
		}
	default:
		fmt.Fprintln(os.Stderr, "this program is for a virtual machine; try: guest list [-whole]")
		os.Exit(2)
	}
}
