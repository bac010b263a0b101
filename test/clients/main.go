// Clients runs the real programs that ask a registry about modules, and says of each
// whether it gets through modproxy what it needs:
//
//	make clients
//	go run ./test/clients [-build] [NAME…]
//
// What it sets in a program is what docs/how-to/other-tools.md tells people to set: a run takes
// the blocks of its section there as they are, and a block that no run takes is a
// mistake, unless the section says that the program was not run.
//
// Nothing is asked of the internet. A program reaches its hosts through a proxy of the
// site, which leads every name to modproxy, as a name server of the site would; and
// modproxy reaches the registries through another, which leads to package
// registrytest. That stays clear of the machine's own names and rights.
//
// With -build it makes the programs that are missing, out of Go modules and npm
// packages, below the user's cache directory, and runs nothing: all of them, or those
// that are named, or with "ci" those that every change is tested with. A program that
// cannot be made that way is taken from PATH.
//
// A row says which program in which version was run, what it asked of modproxy, and
// "ok" or what was wrong. The exit code is 1 if anything was, or a named program is
// not there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	making := flag.Bool("build", false, "make the programs, and run nothing")
	flag.Parse()
	err := run(ctx, *making, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, making bool, names []string) error {
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	if making {
		var failed []error
		for _, c := range chosen {
			failed = append(failed, c.make(ctx))
		}
		return errors.Join(failed...)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "client\tversion\tmodules are described\tasked\tverdict")
	wrong := 0
	for _, kept := range []bool{false, true} {
		w, err := newWorld(ctx, kept)
		defer w.close()
		if err != nil {
			return err
		}
		for _, c := range chosen {
			if kept && !c.kept {
				continue
			}
			for _, anonymous := range c.ways() {
				asked, verdict := "", "ok"
				program, version, err := c.find()
				if err != nil {
					verdict = "not run: " + err.Error()
				} else if asked, err = w.run(ctx, c, program, anonymous); err != nil {
					verdict = strings.Join(strings.Fields(err.Error()), " ")
				}
				if err != nil && (program != "" || len(names) > 0) {
					wrong++
				}
				if anonymous {
					version += ", anonymous"
				}
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", c.name, version, w, asked, verdict)
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%d programs do not get what they need", wrong)
	}
	return nil
}

// choose returns the clients that are named, by themselves or with their version, or
// all of them. "ci" stands for those that may not be missing there.
func choose(names []string) ([]*client, error) {
	if len(names) == 0 {
		return clients, nil
	}
	var chosen []*client
	for _, name := range names {
		before := len(chosen)
		for _, c := range clients {
			if name == c.name || name == c.name+" "+c.version || name == "ci" && c.always {
				chosen = append(chosen, c)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("there is no client %q", name)
		}
	}
	return slices.Compact(chosen), nil
}

// patience is how long a run may take.
const patience = 10 * time.Minute
