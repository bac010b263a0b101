// Command clients runs real programs that send requests to a registry through modproxy.
//
//	make clients
//	go run ./test/clients [-build] [NAME…]
//
// For each program it reports whether the program gets its results. The settings of a program are those in
// docs/how-to/other-tools.md: a run uses the blocks of its section without changes. A block that no run uses is an
// error, unless the section says that the program was not run.
//
// Nothing is requested from the internet. A program reaches its hosts through a proxy of the site, which connects every
// name to modproxy, as a name server of the site would. modproxy reaches the registries through another proxy, which
// connects to package registrytest. The names of the machine and its privileges are not needed.
//
// With -build it builds the missing programs from Go modules and npm packages, below the user's cache directory, and
// runs nothing: all of them, the named ones, or with "ci" those that are run for every change. A program that cannot be
// built that way is taken from PATH.
//
// A row contains the program and its version, its requests to modproxy, and "ok" or the error. The exit code is 1 after
// an error, or if a named program is missing.
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
	making := flag.Bool("build", false, "build the programs, and run nothing")
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
	fmt.Fprintln(table, "client\tversion\tmodules are described\trequests\tverdict")
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

// choose returns the clients with the given names, with or without their version, or all of them. "ci" selects the
// clients that must not be missing there.
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
			return nil, fmt.Errorf("the client %q is unknown", name)
		}
	}
	return slices.Compact(chosen), nil
}

// patience is the timeout of one run.
const patience = 10 * time.Minute
