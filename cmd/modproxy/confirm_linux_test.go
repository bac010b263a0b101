package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal returns both sides of a terminal: that of the operator and that of the program.
func terminal(t *testing.T) (operator, program *os.File) {
	t.Helper()
	operator, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { operator.Close() })
	must(t, unix.IoctlSetPointerInt(int(operator.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(operator.Fd()), unix.TIOCGPTN)
	must(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { program.Close() })
	return operator, program
}

func TestIsTerminal(t *testing.T) {
	_, program := terminal(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(t, err)
	defer null.Close()
	in, out, err := os.Pipe()
	must(t, err)
	defer in.Close()
	defer out.Close()
	for want, files := range map[bool][]any{true: {program}, false: {null, in, out, &bytes.Buffer{}, strings.NewReader("")}} {
		for _, f := range files {
			if got := isTerminal(f); got != want {
				t.Errorf("isTerminal(%T) = %v", f, got)
			}
		}
	}
}

// At a terminal, verbs that remove data print what they would remove and ask. They remove nothing without a yes.
func TestAsksBeforeRemoval(t *testing.T) {
	for _, verb := range [][]string{
		{"rm", module, "1.0.0"}, {"rm", module, "--all"}, {"gc"}, {"missing", "--clear"},
	} {
		for _, test := range []struct {
			answer  string
			flags   string
			removed bool
		}{
			{answer: "y\n", removed: true}, {answer: "YES\n", removed: true}, {answer: "n\n"}, {answer: "\n"}, {answer: "\x04"},
			{flags: "--yes", removed: true}, {flags: "--dry-run"},
		} {
			t.Run(fmt.Sprintf("%v %s %q", verb, test.flags, test.answer), func(t *testing.T) {
				api, removals := removingAPI(t)
				operator, program := terminal(t)
				go io.Copy(io.Discard, operator)
				if test.answer != "" {
					_, err := operator.WriteString(test.answer)
					must(t, err)
				}
				var stdout bytes.Buffer
				args := append(append([]string{}, verb...), strings.Fields(test.flags)...)
				code := run(t.Context(), append(args, "--server", api), []string{"MODPROXY_TOKEN=x"}, program, &stdout, program)
				if removed := removals() > 0; removed != test.removed {
					t.Errorf("removed: %v, want %v", removed, test.removed)
				}
				if declined := test.answer != "" && !test.removed; (code != exitDone) != declined {
					t.Errorf("exit code %d", code)
				}
			})
		}
	}
}

// A signal ends a verb that waits for a confirmation.
func TestQuestionEndsWithContext(t *testing.T) {
	api, removals := removingAPI(t)
	operator, program := terminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		shown := make([]byte, 4096)
		for text := ""; !strings.Contains(text, "[y/N]"); {
			n, err := operator.Read(shown)
			if err != nil {
				break
			}
			text += string(shown[:n])
		}
		cancel()
	}()
	code := run(ctx, []string{"gc", "--server", api}, []string{"MODPROXY_TOKEN=x"}, program, io.Discard, program)
	if code != exitFailed || removals() > 0 {
		t.Errorf("exit code %d, %d removals", code, removals())
	}
}
