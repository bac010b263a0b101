package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/versionname"
)

func newMissingCommand(env *environment) *cobra.Command {
	var list, clear bool
	var r removal
	cmd := env.withServer(&cobra.Command{
		Use:   "missing [MODULE]",
		Short: "List requests that modproxy could not answer while offline",
		Long:  missingHelp,
		Example: `  modproxy missing --list > LIST
  modproxy missing acme/vpc/aws --json
  modproxy missing --clear`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := env.chosen(args...)
			switch {
			case err != nil:
				return err
			case list && env.json() || clear && (list || env.json()):
				return misuse{errors.New("--list, --json and --clear go one at a time")}
			case !clear && (r.dryRun || r.yes):
				return misuse{errors.New("--dry-run and --yes go with --clear")}
			case clear:
				return env.clearMissing(cmd.Context(), versionname.Of(v), r)
			}
			return env.listMissing(cmd.Context(), versionname.Of(v), list)
		},
	}, "offline")
	cmd.Flags().BoolVar(&list, "list", false, `print one line for each request, for "modproxy mirror -f"`)
	cmd.Flags().BoolVar(&clear, "clear", false, "remove the listed requests")
	r.addTo(cmd)
	return withJSON(cmd, `"module", "version", "platform", "count", "askers", …`, "")
}

const missingHelp = `List requests that modproxy could not answer, with the clients, the first time
and the count. Packages that are cached by now are not listed. --list prints the
list for the connected side:

  modproxy missing --list > LIST        here
  modproxy mirror -f LIST               there

Read the list before you use it: every client with access to a module can add
the module. On a terminal, --clear prints the requests that it would remove, and
asks for confirmation.

A client does not send its version constraint. If it got the list of cached
versions and requested none of them within three seconds, the version that it
needs is unknown. The list then has the module without a version, which means
its newest version. Programs that only read lists of versions, such as Renovate,
cause such entries, too.

` + moduleUsage

// listMissing prints the unanswered requests for a module, or for all modules. With asList it prints them in the form that "mirror -f"
// reads.
func (env *environment) listMissing(ctx context.Context, about versionname.Name, asList bool) error {
	text := missingText
	if asList {
		text = missingLine
	}
	n, show := 0, printer(env, text)
	_, err := ask(ctx, env, admin.MissingList, about, func(m admin.MissingVersion) error {
		n++
		return show(m)
	})
	if err == nil {
		err = env.end(nil, "")
	}
	if err == nil && !asList && !env.json() {
		_, err = fmt.Fprintf(env.stderr, "%d missing\n", n)
	}
	return err
}

// clearMissing removes the recorded requests for a module, or for all modules. At a terminal it asks for confirmation.
func (env *environment) clearMissing(ctx context.Context, about versionname.Name, r removal) error {
	if r.dryRun || r.asks(env) {
		n, to := 0, env.stderr
		if r.dryRun {
			to = env.stdout
		}
		_, err := ask(ctx, env, admin.MissingList, about, func(m admin.MissingVersion) error {
			n++
			_, err := fmt.Fprint(to, "would forget "+wanted(m)+"\n")
			return err
		})
		if err == nil && n > 0 && !r.dryRun {
			err = env.confirm(ctx, fmt.Sprintf("Forget %s?", count(n, "request")))
		}
		if err != nil || r.dryRun {
			return err
		}
	}
	n, err := ask(ctx, env, admin.MissingClear, about, nil)
	if err == nil {
		_, err = fmt.Fprintf(env.stderr, "%s cleared\n", count(n, "request"))
	}
	return err
}

// missingText describes a request in a few lines, with the command that fetches the module.
func missingText(m admin.MissingVersion) string {
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
	return fmt.Sprintf("%s\n  requested:  %s\n  to get it:  %s\n", printable(what), askedText(m.MissedRequests), get)
}

// missingLine formats a request as "modproxy mirror -f" reads it.
func missingLine(m admin.MissingVersion) string {
	line := wanted(m) + "\n"
	if len(m.Listed) > 0 {
		line = "# Which version is wanted is not known; cached: " + printable(strings.Join(m.Listed, ", ")) + ".\n" + line
	}
	return line
}

// wanted formats the module and version of a request as "modproxy mirror -f" reads them.
func wanted(m admin.MissingVersion) string {
	if m.Version == "" {
		return m.Module
	}
	return strings.TrimSpace(m.Module + "@" + m.Version + " " + m.Platform)
}
