package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/config"
)

func newStatusCommand(env *environment) *cobra.Command {
	cmd := env.withServer(&cobra.Command{
		Use:   "status",
		Short: "Print the state of a running modproxy and of its upstreams",
		Long: `Print one screen about the process that serves from the data directory: its
version and problems, the health of each upstream, the room for packages,
running downloads, versions that were offered with other content than recorded
(drift), versions that wait for approval, and the policy in force.

The health of an upstream comes from the last requests to it. status itself
requests nothing from upstreams, so an upstream without a request since the
start is unknown.

The exit code is 0 if the process answers, even with problems. For monitoring,
use "modproxy health" and /-/readyz.`,
		Example: `  modproxy status
  modproxy status --json
  modproxy status --server https://modules.example.com`,
		Args:       arguments(0, 0),
		SuggestFor: []string{"state", "info"},
		RunE:       func(cmd *cobra.Command, _ []string) error { return env.printStatus(cmd.Context()) },
	})
	return withJSON(cmd, `"version", "ready", "problems", "upstreams", "room", "downloads", …`, "")
}

func (env *environment) printStatus(ctx context.Context) error {
	s, err := ask(ctx, env, admin.StatusGet, struct{}{}, func(struct{}) error { return nil })
	if err != nil {
		return err
	}
	return env.print(s, statusText(s))
}

// Maximum numbers of lines on the screen. The JSON has the complete lists.
const (
	maxStatusUpstreams = 6
	maxStatusDownloads = 4
)

// statusText returns the screen for a status. The texts of the status must be printable.
func statusText(s admin.Status) string {
	var b screen
	state := "ready"
	if !s.Ready {
		state = "not ready"
	}
	if s.Offline {
		state += ", offline"
	}
	b.row("modproxy", "%s at %s for %s", s.Version, s.URL, since(s.Time, s.Started))
	b.row("data", "%s", s.Data)
	b.row("state", "%s", state)
	for _, p := range s.Problems {
		b.row("problem", "%s", strings.TrimSuffix(p.Problem+": "+p.Error, ": "))
	}
	b.upstreams(s)
	b.row("room", "%s", roomText(s.Room))
	b.row("downloads", "%d", len(s.Downloads))
	for i, d := range s.Downloads {
		if i == maxStatusDownloads {
			b.row("", "and %d more, see --json", len(s.Downloads)-i)
			break
		}
		b.row("", "%s for %s", strings.TrimSpace(d.Module+" "+d.Version+" "+d.Platform), since(s.Time, d.Began))
	}
	b.row("drift", "%s", withRemedy(s.Drift, "version", "modproxy ledger drift"))
	b.row("pending", "%s", withRemedy(s.Pending, "version", "modproxy pending"))
	r := s.Rules
	b.row("policy", "default %s, mode %s, %s, %d reserved, %s", r.Default, r.Mode,
		count(r.Rules, "rule"), r.Reserved, count(r.Decisions, "decision"))
	return b.String()
}

// screen is a text of rows, each a name and a text that is wrapped at helpWidth.
type screen struct{ strings.Builder }

// row adds a row. Without a name, it continues the previous row.
func (b *screen) row(name, format string, args ...any) {
	const indent = 11
	line := fmt.Sprintf("%-*s", indent-1, name)
	for i, word := range strings.Fields(fmt.Sprintf(format, args...)) {
		if i > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > helpWidth {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", indent-1)
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// upstreams adds the upstreams. If there are too many for the screen, it begins with unavailable and failing ones.
func (b *screen) upstreams(s admin.Status) {
	list := slices.Clone(s.Upstreams)
	if len(list) > maxStatusUpstreams {
		slices.SortStableFunc(list, func(x, y admin.UpstreamStatus) int { return urgency(x) - urgency(y) })
	}
	if len(list) == 0 {
		b.row("upstreams", "any registry, and no request since the start")
	}
	for i, u := range list {
		name := "upstreams"
		if i > 0 {
			name = ""
		}
		if i == maxStatusUpstreams {
			b.row("", "and %d more, see --json", len(list)-i)
			break
		}
		at := u.Host
		if u.Service == admin.ForgeService {
			at += " (git)"
		}
		b.row(name, "%s: %s", at, upstreamText(u, s.Time))
	}
}

// urgency returns the place of an upstream on the screen: unavailable ones have the lowest number.
func urgency(u admin.UpstreamStatus) int {
	switch u.State {
	case admin.UpstreamUnavailable:
		return 0
	case admin.UpstreamFailing:
		return 1
	case admin.UpstreamAnswers, admin.UpstreamUnknown, admin.UpstreamOffline:
	}
	return 2
}

// upstreamText describes the state of an upstream at a time.
func upstreamText(u admin.UpstreamStatus, now time.Time) string {
	text := string(u.State)
	switch u.State {
	case admin.UpstreamUnavailable:
		text += " for " + since(now, u.Down)
	case admin.UpstreamFailing:
		text += fmt.Sprintf(", last %s ago", since(now, u.Failed))
	case admin.UpstreamAnswers:
		return fmt.Sprintf("%s, last %s ago", text, since(now, u.Answered))
	case admin.UpstreamUnknown:
		return text + ", no request since the start"
	case admin.UpstreamOffline:
		return text
	}
	about := u.Service
	if about == admin.ForgeService {
		about = ""
	}
	if u.Namespace != "" {
		about += " of namespace " + u.Namespace
	}
	if u.Repository != "" {
		about = "repository " + u.Repository
	}
	if about != "" {
		about += ": "
	}
	return text + ": " + about + u.Error
}

// roomText describes the use of the store and of its file system.
func roomText(r admin.Room) string {
	text := modproxy.SizeText(r.Stored) + " stored, no bound (cache.max_size)"
	if r.Max > 0 {
		text = fmt.Sprintf("%s of %s stored", modproxy.SizeText(r.Stored), modproxy.SizeText(r.Max))
	}
	if r.Quarantined > 0 {
		text += fmt.Sprintf(", %s in quarantine", modproxy.SizeText(r.Quarantined))
	}
	if r.DiskFull > 0 {
		text += fmt.Sprintf("; disk %d %% full, %s free", r.DiskFull, modproxy.SizeText(r.DiskFree))
	}
	return text
}

// withRemedy returns a number with its noun and, if it is not zero, the verb that lists them.
func withRemedy(n int, what, verb string) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%s: \"%s\"", count(n, what), verb)
}

// since returns the time from began to now for people, in its largest units.
func since(now, began time.Time) string {
	d := max(0, now.Sub(began))
	unit := time.Second
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour:
		unit = time.Minute
	}
	return config.FormatDuration(d.Truncate(unit))
}
