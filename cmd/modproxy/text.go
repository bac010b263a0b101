package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/hint"
)

// count returns a number with its noun, in the plural unless n is 1.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// newTable returns a writer for lines with tabs between columns, and a function that returns them as a table.
func newTable() (out io.Writer, table func() string) {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	return w, func() string {
		_ = w.Flush() // a buffer never fails
		return b.String()
	}
}

// Exit codes of modproxy.
const (
	exitDone   = 0
	exitFailed = 1
	exitMisuse = 2 // the command line or the configuration is wrong
)

// misuse marks err as a mistake in the command line or the configuration. The exit code is exitMisuse.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

// problems are several errors, each printed in its own line.
type problems []error

func (p problems) Unwrap() []error { return p }
func (p problems) Error() string   { return config.Error(p).Error() }

func exitCode(err error) int {
	var m misuse
	var wrong config.Error
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &m), errors.As(err, &wrong):
		return exitMisuse
	}
	return exitFailed
}

// printError prints an error, then its hints.
func printError(w io.Writer, err error) {
	var all problems
	var wrong config.Error
	if errors.As(err, &wrong) {
		all = problems(wrong)
	}
	if all != nil || errors.As(err, &all) {
		for _, err := range all {
			printError(w, err)
		}
		return
	}
	fmt.Fprintf(w, "modproxy: %s\n", printable(strings.ReplaceAll(err.Error(), "\n", " ")))
	for _, h := range hint.Of(err) {
		fmt.Fprintf(w, "hint: %s\n", printable(h))
	}
}

// printable makes s safe to print in a line. Names may come from untrusted sources.
func printable(s string) string { return clean.Text(s) }
