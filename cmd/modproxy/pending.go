package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/tfconfig"
)

func newPendingCommand(env *environment) *cobra.Command {
	var fetch bool
	cmd := env.withServer(&cobra.Command{
		Use:   "pending [MODULE]",
		Short: "List requested versions that wait for approval",
		Long:  pendingHelp,
		Example: `  modproxy pending
  modproxy pending acme/vpc/aws --fetch`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := env.chosen(args...)
			if err != nil {
				return err
			}
			return env.listPending(cmd.Context(), versionname.Of(v), fetch)
		},
	})
	cmd.Flags().BoolVar(&fetch, "fetch", false, "download the listed versions for review, without serving them")
	return withJSON(cmd, `"module", "version", "count", "askers", "sum", "source", …`, "")
}

const pendingHelp = `List the versions that wait for "modproxy approve" because a rule of the policy
requires it: the clients that requested them, the first time, the count, and
their dependencies. Approved and rejected versions are not listed.

A request for the list of versions of a module counts as a request for the
newest version that waits.

The dependencies of a version are known after its download: the modules that it
calls and the providers that it requires, with file and line. A source that is
not a module of a registry bypasses modproxy: clients download it themselves,
and the policy does not apply. --fetch downloads all listed versions for review:
they are cached and recorded in the ledger, but not served.

` + moduleUsage

// listPending prints the versions of a module, or of all modules, that wait for approval. If fetch is true, it fetches them first.
func (env *environment) listPending(ctx context.Context, about versionname.Name, fetch bool) error {
	q := admin.PendingList
	if fetch {
		q = admin.PendingFetch
	}
	var failed problems
	n, show := 0, printer(env, pendingText)
	_, err := ask(ctx, env, q, about, func(p admin.PendingVersion) error {
		n++
		if p.Error != "" {
			failed = append(failed, errors.New(p.Error))
		}
		return show(p)
	})
	if err == nil {
		err = env.end(nil, "")
	}
	switch {
	case err != nil:
		return err
	case len(failed) > 0:
		return failed
	case !env.json():
		_, err = fmt.Fprintf(env.stderr, "%s waiting for approval\n", count(n, "version"))
	}
	return err
}

// pendingText describes a waiting version in a few lines, with the command that approves it.
func pendingText(p admin.PendingVersion) string {
	brings := `not fetched yet ("modproxy pending --fetch" fetches it)`
	switch {
	case p.Error != "":
		brings = "it could not be fetched"
	case p.Sum != "":
		size := "not cached"
		if p.Size > 0 {
			size = modproxy.SizeText(p.Size)
		}
		brings = fmt.Sprintf("%s, %s, from %s", p.Sum, size, strings.TrimSuffix(sourceText(p.Source), " -"))
	}
	return fmt.Sprintf("%s\n  requested:   %s\n  brings:      %s\n%s  for rule:    %s\n  to approve:  modproxy approve %s %s\n",
		p.Shown(), askedText(p.MissedRequests), printable(brings), bringsText(p), printable(p.Rule), clean.ShellQuote(p.Module), clean.ShellQuote(p.Version))
}

// askedText describes the number of requests, the time of the first, and the clients.
func askedText(a admin.MissedRequests) string {
	text := fmt.Sprintf("%s since %s", count(a.Count, "time"), a.First.UTC().Format(time.RFC3339))
	if len(a.Askers) > 0 {
		text += ", by " + strings.Join(a.Askers, ", ")
	}
	return printable(text)
}

// bringsText lists the dependencies of a package, one in a line.
func bringsText(p admin.PendingVersion) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-13s%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	only := func(c tfconfig.Client) string {
		if c == "" {
			return ""
		}
		return ", read by " + string(c) + " only"
	}
	if p.Unread != "" {
		line("warning:", "what it calls is not known: %s", p.Unread)
	}
	if r := p.Release; r != nil {
		line("platforms:", "%s", strings.Join(r.Platforms, ", "))
		signed := signersText(r.Keys)
		if !r.Signed.IsZero() {
			signed += " at " + r.Signed.UTC().Format(time.RFC3339)
		}
		line("signed by:", "%s", signed)
	}
	if p.Dependencies == nil {
		return b.String()
	}
	for _, c := range p.Dependencies.Calls {
		what := strings.TrimSpace(c.Source + " " + c.Version)
		switch {
		case c.Dynamic != "":
			what = strings.TrimSpace(what + " (not known: " + c.Dynamic + ")")
		case c.Bypass:
			what += " (past modproxy)"
		}
		line("module:", "%s at %s:%d%s", what, c.File, c.Line, only(c.Client))
	}
	same := map[string]int{}
	provider := func(r admin.DependencyProvider) string {
		return strings.TrimSpace(r.Source+" "+r.Version) + only(r.Client)
	}
	for _, r := range p.Dependencies.Providers {
		same[provider(r)]++
	}
	for _, r := range p.Dependencies.Providers { // each submodule of the package may require the same provider
		if n := same[provider(r)]; n > 0 {
			more := ""
			if n > 1 {
				more = fmt.Sprintf(" and in %s", count(n-1, "other place"))
			}
			line("provider:", "%s at %s:%d%s%s", strings.TrimSpace(r.Source+" "+r.Version), r.File, r.Line, more, only(r.Client))
			same[provider(r)] = 0
		}
	}
	for _, problem := range p.Dependencies.Problems {
		line("warning:", "%s", problem)
	}
	return b.String()
}
