package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/clean"
)

func newMissingCommand(env *environment) *cobra.Command {
	var list, clear bool
	cmd := withJSON(&cobra.Command{
		Use:   "missing [MODULE]",
		Short: "List what clients asked for that is not kept while modproxy is offline",
		Long: `List what clients asked for in vain: who, since when and how often. What has been kept
since is not listed. --list prints it for the connected side:

  modproxy missing --list > LIST        here
  modproxy mirror -f LIST               there

Read the list before: whoever may ask for a module can put it there.

A client does not say which versions its constraint allows. Where it was told which
ones are kept and took none within three seconds, the version that it wants is not
known: the list has the module alone, which stands for its newest version. What only
looks which versions there are, as Renovate does, seems to want one, too.

` + moduleUsage,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := env.chosen(args...)
			if err == nil && (list && env.json() || clear && (list || env.json())) {
				err = misuse{errors.New("--list, --json and --clear go one at a time")}
			}
			if err != nil {
				return err
			}
			if clear {
				n, err := ask(cmd.Context(), env, admin.MissingClear, admin.NameOf(v), nil)
				if err == nil {
					_, err = fmt.Fprintf(env.stderr, "%s cleared\n", count(n, "request"))
				}
				return err
			}
			text := missingText
			if list {
				text = missingLine
			}
			n, show := 0, printer(env, text)
			_, err = ask(cmd.Context(), env, admin.MissingList, admin.NameOf(v), func(m admin.Missing) error {
				n++
				return show(m)
			})
			if err == nil && !list && !env.json() {
				_, err = fmt.Fprintf(env.stderr, "%d missing\n", n)
			}
			return err
		},
	}, `print JSON, one request in a line: {"module": …, "version": …, "count": …, "askers": […], …}`)
	cmd.Flags().BoolVar(&list, "list", false, `print a line for each, for "modproxy mirror -f"`)
	cmd.Flags().BoolVar(&clear, "clear", false, "forget what is listed")
	return cmd
}

// missingText is what is missing in a few lines, with the command that gets it.
func missingText(m admin.Missing) string {
	what, get := m.Module, "modproxy mirror "+wanted(m)
	if m.Platform != "" {
		get = "modproxy mirror " + m.Module + "@" + m.Version + " --platform " + m.Platform
	}
	if m.Version != "" {
		what = m.Shown()
	}
	if len(m.Listed) > 0 {
		what += ": another version than " + strings.Join(m.Listed, ", ")
		get = "modproxy mirror " + clean.ShellQuote(m.Module+"@CONSTRAINT")
	}
	return fmt.Sprintf("%s\n  asked for:  %s\n  to get it:  %s\n", printable(what), askedText(m.Asked), get)
}

// missingLine is what is missing as "modproxy mirror -f" reads it.
func missingLine(m admin.Missing) string {
	line := wanted(m) + "\n"
	if len(m.Listed) > 0 {
		line = "# Which version is wanted is not known; kept: " + printable(strings.Join(m.Listed, ", ")) + ".\n" + line
	}
	return line
}

// wanted is what is missing as a line of what "modproxy mirror -f" reads.
func wanted(m admin.Missing) string {
	if m.Version == "" {
		return m.Module
	}
	return strings.TrimSpace(m.Module + "@" + m.Version + " " + m.Platform)
}
