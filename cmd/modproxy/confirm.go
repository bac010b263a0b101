package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// removal holds the flags of verbs that remove data.
type removal struct{ dryRun, yes bool }

func (r *removal) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "remove nothing, and print the data that would be removed")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "remove without confirmation")
}

// asks reports whether an operator at a terminal must confirm a removal.
func (r removal) asks(env *environment) bool { return !r.dryRun && !r.yes && env.interactive() }

// errDeclined is the error of a verb whose operator did not confirm.
var errDeclined = errors.New("nothing was removed")

// confirm asks a question on standard error. It returns an error unless the answer is yes, and returns when ctx ends.
func (env *environment) confirm(ctx context.Context, question string) error {
	fmt.Fprintf(env.stderr, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // reading a terminal cannot be cancelled; the process ends soon after ctx
		line, _ := bufio.NewReader(env.stdin).ReadString('\n') // an error counts as no
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
		return errDeclined
	case <-ctx.Done():
		fmt.Fprintln(env.stderr)
		return context.Cause(ctx)
	}
}

// interactive reports whether an operator can answer a question.
func (env *environment) interactive() bool { return isTerminal(env.stdin) && isTerminal(env.rawErr) }

// isTerminal reports whether f is a file of a terminal. The null device is not.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
