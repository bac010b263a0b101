package main

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/clean"
)

func newTokenListCommand(env *environment) *cobra.Command {
	return withJSON(env.withServer(&cobra.Command{
		Use:   "list",
		Short: "List the valid tokens, and those that ended within 90 days",
		Example: `  modproxy token list
  modproxy token list --json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, tokens, err := env.tokens(cmd.Context())
			if err != nil {
				return err
			}
			list, err := tokens.List()
			if err != nil {
				return err
			}
			out, table := newTable()
			fmt.Fprintln(out, "NAME\tID\tSTATE\tMAY READ\tRIGHTS")
			for _, t := range list {
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", t.Name, t.ID, stateOf(t, time.Now()), scopesText(t.Scopes), rightsText(t))
				if err := env.item(t, ""); err != nil {
					return err
				}
			}
			return env.end(nil, table())
		},
	}), `"id", "name", "created", "expires", "revoked", "scopes", "admin", "refresh"`, "")
}

func stateOf(t auth.Token, now time.Time) string {
	switch {
	case !t.Revoked.IsZero():
		return "revoked " + t.Revoked.Format(time.DateOnly)
	case !t.Live(now):
		return "expired " + t.Expires.Format(time.DateOnly)
	case t.Expires.IsZero():
		return "never expires"
	}
	return "expires " + t.Expires.Format(time.DateOnly)
}

func rightsText(t auth.Token) string {
	var all []string
	if t.Admin {
		all = append(all, "admin")
	}
	if t.Refresh {
		all = append(all, "refresh")
	}
	return cmp.Or(strings.Join(all, " "), "-")
}

func scopesText(scopes []auth.Scope) string {
	var all []string
	for _, s := range scopes {
		all = append(all, s.String())
	}
	return cmp.Or(strings.Join(all, " "), "-")
}

// tokenHelp describes how clients use a new token. It does not contain the token, because standard error may go to a log.
func tokenHelp(c *config.Config, t auth.Token) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nThis is the token %s (%s), shown this once: only its hash is kept, in\n%s.\n%s; \"modproxy token revoke %s\" ends it.\n",
		t.Name, t.ID, app.Absolute(c.TokensFile()), endText(t), clean.ShellQuote(t.Name))
	own := "" // the proxy's host with port as clients write it; empty if unknown
	base, _ := c.BaseURL()
	if u, err := url.Parse(base); err == nil {
		own = u.Host
	}
	for _, host := range tokenHosts(c, t, own) {
		what, mirror := "modules and providers", ""
		switch {
		case host == own && servesTLS(c):
			mirror = ", and for its network mirror"
		case host == c.OwnHost():
			what = "modules"
		}
		fmt.Fprintf(&b, "\nFor %s of %s%s, in the client's CLI configuration:\n\n", what, hostname.Display(host), mirror)
		fmt.Fprintf(&b, "  credentials %q {\n    token = \"mp_…\"\n  }\n", hostname.Display(host))
		if variable := hostname.TokenVariable(host); variable != "" {
			fmt.Fprintf(&b, "\nor in its environment: %s=mp_…\n", variable)
		}
	}
	if own != "" && len(t.Scopes) > 0 {
		fmt.Fprintf(&b, "\nWhere a package's own URL is the source, in ~/.netrc:\n\n  machine %s login modproxy password mp_…\n", own)
	}
	if t.Admin && own != "" {
		fmt.Fprintf(&b, "\nTo operate the proxy: MODPROXY_TOKEN=mp_… modproxy ls --server %s\nFor its metrics: curl --header 'Authorization: Bearer mp_…' %s\n",
			clean.ShellQuote(base), clean.ShellQuote(base+"/-/metrics"))
	}
	if t.Refresh && own != "" {
		fmt.Fprintf(&b, "\nTo refresh modules: MODPROXY_TOKEN=mp_… modproxy refresh --server %s ADDRESS\n", clean.ShellQuote(base))
	}
	if unknown := unknownHosts(c, t); len(unknown) > 0 {
		fmt.Fprintf(&b, "\nThe scopes name hosts that are not among the upstreams: %s.\n", strings.Join(unknown, ", "))
	}
	return b.String()
}

// remoteTokenHelp describes a new token of the proxy at server. It does not contain the token.
func remoteTokenHelp(server string, t auth.Token) string {
	text := fmt.Sprintf("\nThis is the token %s (%s), shown this once: the proxy stores only its hash.\n%s; \"modproxy token revoke %s --server %s\" ends it.\n",
		t.Name, t.ID, endText(t), clean.ShellQuote(t.Name), clean.ShellQuote(server))
	if t.Admin {
		text += fmt.Sprintf("\nTo operate the proxy: MODPROXY_TOKEN=mp_… modproxy ls --server %s\n", clean.ShellQuote(server))
	}
	return text
}

// endText says when a token expires.
func endText(t auth.Token) string {
	if t.Expires.IsZero() {
		return "It never expires"
	}
	return "It expires at " + t.Expires.Format(time.RFC3339)
}

// tokenHosts returns the hosts for which clients use the token: the hosts in source addresses.
func tokenHosts(c *config.Config, t auth.Token, own string) []string {
	var hosts []string
	add := func(host string) {
		covers := func(s auth.Scope) bool { return s.Host == "*" || s.Host == host }
		if host != "" && slices.ContainsFunc(t.Scopes, covers) {
			hosts = append(hosts, host)
		}
	}
	for _, u := range c.Upstreams {
		add(normalised(u.Host))
	}
	isOwn := own != "" && servesTLS(c) // clients use https for a registry's own hostname
	if !isOwn || normalised(own) != c.OwnHost() {
		add(c.OwnHost())
	}
	if isOwn && len(t.Scopes) > 0 {
		hosts = append(hosts, own)
	}
	return hosts
}

// servesTLS reports whether clients use https for the proxy.
func servesTLS(c *config.Config) bool {
	return c.TLS.CertFile != "" || strings.HasPrefix(c.PublicURL, "https:")
}

// unknownHosts returns the hosts of scopes that are neither upstreams nor the host of own modules.
func unknownHosts(c *config.Config, t auth.Token) []string {
	var unknown []string
	for _, s := range t.Scopes {
		known := func(u config.Upstream) bool { return u.Host == "*" || normalised(u.Host) == s.Host }
		if s.Host != "*" && s.Host != c.OwnHost() && !slices.ContainsFunc(c.Upstreams, known) {
			unknown = append(unknown, s.Host)
		}
	}
	return unknown
}

// normalised returns the normal form of a host, or the empty string if it is not a valid host.
func normalised(host string) string {
	h, _ := hostname.Parse(host) // empty on error
	return h
}
