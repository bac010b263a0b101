// Package conformance checks whether a module registry works with each of its clients.
//
//	err := conformance.Run(ctx, conformance.Options{URL: u, Modules: list}, func(f conformance.Finding) error { … })
//
// It sends the requests of each client, and reads the answers as strictly as that client. A [Finding] names the client
// that cannot work with the registry, and the reason.
//
// Invariant: a rule describes the behaviour of the file of a client that the rule names. A rule fails only if that
// client fails, or does something that its user does not want. The rule about an optional part of a registry never
// fails, but names the tool that does not work without that part.
//
// The package sends every request itself and has its own parsers, each as lenient as its client. It follows all
// addresses that a registry gives to its clients: run it on a machine on which these clients may run.
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

// Verdict is the result of a rule for one client.
type Verdict string

// Verdicts, from good to bad.
const (
	Pass    Verdict = "pass"
	Without Verdict = "n/a"  // the rule is about an optional part that the registry does not have
	Warn    Verdict = "warn" // the client works, but with restrictions
	Fail    Verdict = "fail"
)

// rule is a requirement of some clients.
type rule struct {
	id    string
	wants string // the requirement
	files files  // of the clients with the requirement
	run   func(*visit) Result
}

// Result is the result of a rule for one client and module.
type Result struct {
	Verdict Verdict `json:"verdict"`
	Seen    string  `json:"seen"` // the answer of the registry
}

// Finding is a result with its client, module and rule.
type Finding struct {
	Client  string `json:"client"`
	Version string `json:"version"` // of the client
	Module  string `json:"module"`
	Rule    string `json:"rule"`
	Result
	Wants string `json:"wants"` // the requirement
	File  string `json:"file"`  // with its repository
}

// Options select the registry and its modules.
type Options struct {
	// URL is the URL of the registry. If it has a path, only clients with a configurable base URL are tested. If its
	// scheme is http, http counts as the https that clients require.
	URL *url.URL
	// Modules are the modules to request. The host of a module is the name by which clients know the registry. Unless
	// URL has a path, requests carry that name and go to URL, as if the name resolved to it.
	Modules []modproxy.Address
	// Token is sent as each client sends its token. Clients without tokens send none. It may be empty.
	Token string
}

// Run tests every rule with every client and module, one request at a time, and calls each with every result. The order
// is by module, by client, and then the order in which clients meet the rules. The error is that of ctx or each, or
// says that the registry cannot be reached.
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

// reach returns an error if no connection to the registry can be made. Verdicts for each client would then say nothing
// about the registry.
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

// saw removes possible secrets from the URLs that a registry names.
func saw(v Verdict, format string, args []any) Result {
	seen := query.ReplaceAllLiteralString(fmt.Sprintf(format, args...), "?…")
	return Result{v, userinfo.ReplaceAllLiteralString(seen, "://…@")}
}

// after is the result of a rule that cannot be checked because another rule has not passed.
func after(rule string) Result { return without("nothing to check: see %s", rule) }

// visit contains the requests of one client for one module. Answers are remembered.
type visit struct {
	*session
	*client
	ctx context.Context
}
