package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
)

// Exit codes of modproxy.
const (
	exitDone   = 0
	exitFailed = 1
	exitMisuse = 2 // the command line or the configuration is wrong
)

// misuse marks err as a mistake in the command line or the configuration.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

// problems are several errors, each printed in a line of its own.
type problems []error

func (p problems) Unwrap() []error { return p }

func (p problems) Error() string {
	lines := make([]string, len(p))
	for i, err := range p {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "; ")
}

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

// printError prints what is wrong, then what to do about it.
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

// printable escapes what a terminal would obey: names in s may come from strangers.
func printable(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(r)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}
