// Package conformance asks a module registry what its clients ask, reads the answers as strictly as each of them does, and
// tells which client could not work with the registry, and why.
//
// Invariant: what a rule says of a client is what the file of that client does, which the rule names. A rule fails only
// if that client fails, or does something else than its user wants; what a registry need not have never fails, but the
// tool that does not work without it is named.
//
// The package reads answers with parsers of its own, each as lenient as the client that it stands for, and makes every
// request itself. It goes wherever a registry sends its clients: run it on a machine where these might run.
package conformance

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"

	"github.com/modproxy/modproxy"
)

// Verdict is what comes of a rule for one client.
type Verdict string

// Verdicts, from good to bad.
const (
	Pass    Verdict = "pass"
	Without Verdict = "n/a"  // the registry does not have what the rule is about, and need not
	Warn    Verdict = "warn" // the client works, but not as well as it could
	Fail    Verdict = "fail"
)

// rule is what some clients need of a registry.
type rule struct {
	id    string
	wants string // what must be true
	files files  // of the clients that need it
	run   func(*visit) Result
}

// Result is what comes of a rule for one client and module.
type Result struct {
	Verdict Verdict `json:"verdict"`
	Seen    string  `json:"seen"` // what the registry answered
}

// Finding is a result with what it is about.
type Finding struct {
	Client  string `json:"client"`
	Version string `json:"version"` // of the client
	Module  string `json:"module"`
	Rule    string `json:"rule"`
	Result
	Wants string `json:"wants"` // what must be true
	File  string `json:"file"`  // with its repository
}

// Options say which registry is asked, and for what.
type Options struct {
	// URL is where the registry is. With a path, only clients are tried that can be told a base URL. Its scheme stands for
	// https, which clients want.
	URL *url.URL
	// Modules are the modules to ask for. The host of one is the name by which clients know the registry: unless URL has a
	// path, the registry at URL is asked by that name, as if that name led there.
	Modules []modproxy.Address
	// Token is shown as each client shows one; clients that can show none get none. It may be empty.
	Token string
}

// Run tries every rule with every client and module, one request at a time, and calls each with what came of it: a module
// after the other, by client and then in the order in which clients meet the rules. The error is that of ctx or each, or says
// that the registry cannot be reached.
func Run(ctx context.Context, o Options, each func(Finding) error) error {
	for _, m := range o.Modules {
		s := newSession(o, m)
		if err := s.reach(ctx); err != nil {
			return err
		}
		if err := s.run(ctx, each); err != nil {
			return err
		}
	}
	return nil
}

// reach returns an error if no connection to the registry can be made: a verdict for each client would say nothing of it.
func (s *session) reach(ctx context.Context) error {
	v := &visit{session: s, ctx: ctx, client: &clients[0]}
	a := v.asksDiscovery()
	if err := ctx.Err(); err != nil {
		return err
	}
	if dial := (*net.OpError)(nil); errors.As(a.err, &dial) && (dial.Op == "dial" || dial.Op == "proxyconnect") {
		return fmt.Errorf("%s cannot be reached: %w", s.at.Redacted(), a.err)
	}
	if invalid := (*tls.CertificateVerificationError)(nil); errors.As(a.err, &invalid) {
		return fmt.Errorf("%s: no client trusts its certificate: %w", s.at.Redacted(), a.err)
	}
	return nil
}

func (s *session) run(ctx context.Context, each func(Finding) error) error {
	for i := range clients {
		v := &visit{session: s, ctx: ctx, client: &clients[i]}
		for _, r := range rules {
			file := cmp.Or(r.files[v.name], r.files[v.like])
			if file == "" || s.below && !v.based {
				continue
			}
			found := Finding{
				Client: v.name, Version: v.version, Module: s.Address.String(), Rule: r.id,
				Result: r.run(v), Wants: r.wants, File: v.repository + " " + file,
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := each(found); err != nil {
				return err
			}
		}
	}
	return nil
}

func pass(format string, args ...any) Result    { return saw(Pass, format, args) }
func without(format string, args ...any) Result { return saw(Without, format, args) }
func warn(format string, args ...any) Result    { return saw(Warn, format, args) }
func fail(format string, args ...any) Result    { return saw(Fail, format, args) }

var (
	query    = regexp.MustCompile(`\?[^\s"?,]+`)
	userinfo = regexp.MustCompile(`://[^\s"/@]*@`)
)

// saw leaves out what may be secret in the URLs that a registry names.
func saw(v Verdict, format string, args []any) Result {
	seen := query.ReplaceAllLiteralString(fmt.Sprintf(format, args...), "?…")
	return Result{v, userinfo.ReplaceAllLiteralString(seen, "://…@")}
}

// after is the result of a rule that has nothing to look at, because another one has not passed.
func after(rule string) Result { return without("nothing to look at: see %s", rule) }

// visit is what one client asks for of one module. What it has asked once, it knows.
type visit struct {
	*session
	*client
	ctx context.Context
}
