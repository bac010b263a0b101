package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	exitMisuse = 2 // command line or configuration are wrong; trying again changes nothing
)

// misuse marks err as a mistake in the command line or the configuration.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

// problems are several errors, each of which is printed for itself.
type problems []error

func (p problems) Unwrap() []error { return p }

func (p problems) Error() string {
	lines := make([]string, len(p))
	for i, err := range p {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "; ")
}

// absent is the text of an error that is [fs.ErrNotExist], which has a text for files.
type absent string

func (a absent) Error() string      { return string(a) }
func (absent) Is(target error) bool { return target == fs.ErrNotExist }

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

// printError writes err for people: what is wrong, then what to do about it.
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

// printable is s with escapes in place of what a terminal would obey: names in it
// may be a stranger's.
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
