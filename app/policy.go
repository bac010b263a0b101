package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/lock"
	"github.com/modproxy/modproxy/policy"
)

// PolicyOf returns the rules of a configuration, including the rules in its policy files. Its error is a [config.Error].
func PolicyOf(c *config.Config) (*policy.Rules, error) {
	rules, _, err := rulesOf(c)
	return rules, err
}

// rulesOf is like PolicyOf, but also returns the names and patterns of the files that the rules come from, even with an error.
func rulesOf(c *config.Config) (_ *policy.Rules, paths []string, err error) {
	set, errRead := c.AllRules()
	var wrong config.Error
	errors.As(errRead, &wrong)
	paths = c.PolicyPaths()
	made := policy.Config{
		DefaultDeny: c.Policy.Default == "deny", Audit: c.Policy.Mode == "audit", FirstAllow: c.Policy.FirstContact == "allow", Contact: c.ContactText(),
		ListDenied: c.Policy.Denied == "list",
	}
	var mistakes config.Error
	made.Reserved, mistakes = reserves(c, set)
	wrong = append(wrong, mistakes...)
	for i, rule := range set.Rules {
		one := policy.Rule{
			Place: set.Places[i], Allow: rule.Allow, Deny: rule.Deny, Versions: rule.Versions, Groups: rule.Groups,
			MinAge: rule.MinAge, Reason: rule.Reason, Approval: rule.Approval != "",
			LockFiles: rule.AllowLocked,
		}
		if err := checkHost(c, rule); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", one.Place, err))
		}
		for _, glob := range rule.AllowLocked {
			paths = append(paths, glob)
			entries, mistakes := readLocks(c, glob)
			one.Locked = append(one.Locked, entries...)
			for _, err := range mistakes {
				wrong = append(wrong, fmt.Errorf("%s: allow_locked: %w", one.Place, err))
			}
		}
		if len(rule.AllowLocked) > 0 && one.Locked == nil {
			one.Locked = []policy.Locked{}
		}
		made.Rules = append(made.Rules, one)
	}
	rules, err := policy.Compile(made)
	if all, ok := err.(interface{ Unwrap() []error }); ok && errRead == nil { // after errRead, a missing key may only be misspelt
		wrong = append(wrong, all.Unwrap()...)
	}
	if len(wrong) > 0 {
		return nil, paths, wrong
	}
	return rules, paths, nil
}

// NeverHold returns an error that names the rules for groups if clients need no credential, because clients then have no groups.
// Otherwise it returns nil.
func NeverHold(c *config.Config, rules *policy.Rules) error {
	var places []string
	for _, rule := range rules.Rules {
		if len(rule.Groups) > 0 && !c.RequiresToken() {
			places = append(places, rule.Place)
		}
	}
	if len(places) == 0 {
		return nil
	}
	first := places[0]
	if more := len(places) - 1; more > 0 {
		first += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%s: without authentication, clients have no groups, and rules for groups never match: set auth.required: true", first)
}

// NoProviders returns an error if the rules deny all providers because no rule is about providers. Otherwise it returns nil.
func NoProviders(rules *policy.Rules) error {
	isOfProviders := func(r policy.Rule) bool { return r.Allow.IsOfProviders() || r.Deny.IsOfProviders() }
	if !rules.DefaultDeny || slices.ContainsFunc(rules.Rules, isOfProviders) {
		return nil
	}
	return errors.New("default: deny, and no rule is about providers, so all providers are denied: " +
		`"- allow: registry.terraform.io/hashicorp/*" with three segments allows some, and "- allow: \"*/*/*\"" allows all`)
}

// reserves returns the reserved namespaces, each with the registries from which it may be requested. For a namespace with a
// route, that is the upstream of the route. For other namespaces, these are the upstreams that are not public, and the own modules.
// The namespaces of own modules are always reserved.
func reserves(c *config.Config, set config.Rules) (all []policy.Reserve, wrong config.Error) {
	var private []string
	for _, u := range c.Upstreams {
		if u.Host != "*" && !isPublic(u) {
			private = append(private, u.Host)
		}
	}
	if own := c.OwnHost(); own != "" {
		private = append(private, own)
	}
	for _, namespace := range c.OwnNamespaces() {
		all = append(all, policy.Reserve{Place: "modules", Namespace: namespace, Hosts: private, Own: c.OwnHost()})
	}
	for i, glob := range set.Reserved {
		place, routed := set.ReservedAt[i], map[string][]string{} // by folded namespace
		for _, r := range c.Routes {
			if !policy.MatchName(glob, r.Namespace) {
				continue
			}
			if !slices.Contains(private, r.Upstream) {
				wrong = append(wrong, fmt.Errorf("%s: %s is reserved, and its route leads to %s, where anybody can have a namespace", place, r.Namespace, r.Upstream))
			}
			folded := strings.ToLower(r.Namespace)
			routed[folded] = append(routed[folded], r.Upstream)
		}
		all = append(all, policy.Reserve{Place: place, Namespace: glob, Hosts: private})
		for namespace, hosts := range routed {
			all = append(all, policy.Reserve{Place: place, Namespace: namespace, Hosts: hosts})
		}
	}
	return all, wrong
}

// isPublic reports whether requests to an upstream reach a registry at which anybody can register a namespace.
func isPublic(u config.Upstream) bool {
	hosts := []string{u.Host}
	for _, base := range []string{u.Modules, u.Providers, u.DocsURL()} {
		if at, err := url.Parse(base); err == nil && at.Host != "" {
			host, _ := hostname.Parse(at.Host)
			hosts = append(hosts, host)
		}
	}
	return slices.ContainsFunc(hosts, func(host string) bool { return slices.Contains(config.PublicRegistries, host) })
}

// ownHosts returns the hostnames of the proxy itself. Source addresses have them if clients use the proxy as a registry.
func ownHosts(c *config.Config) (hosts []string) {
	local, _ := c.LocalURL()
	for _, base := range []string{c.PublicURL, local} {
		if at, err := url.Parse(base); err == nil && at.Host != "" {
			host, err := hostname.Parse(at.Host)
			if err == nil && !slices.ContainsFunc(c.Upstreams, func(u config.Upstream) bool { return u.Host == host }) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// checkHost returns an error for a rule about a hostname of the proxy itself, because such a rule never matches, unless it is the host
// of own modules.
func checkHost(c *config.Config, rule config.PolicyRule) error {
	for _, pattern := range []policy.Pattern{rule.Allow, rule.Deny} {
		host, _, _ := strings.Cut(pattern.String(), "/")
		if host, err := hostname.Parse(host); err == nil && host != c.OwnHost() && slices.Contains(ownHosts(c), host) {
			return fmt.Errorf("%s: %s is this proxy itself: name the registry that it asks, such as %s", pattern, host, c.DefaultHost())
		}
	}
	return nil
}

// readLocks returns the entries of the lock files that a pattern matches.
func readLocks(c *config.Config, glob string) (all []policy.Locked, wrong []error) {
	names, err := filepath.Glob(glob)
	if err == nil && len(names) == 0 {
		err = errors.New("no such file")
	}
	if err != nil {
		return nil, []error{fmt.Errorf("%.200s: %w", glob, err)}
	}
	own, upstreams := ownHosts(c), upstreamsOf(c)
	for _, name := range names {
		text, err := durable.ReadRegular(name, lock.MaxSize)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		entries, err := lock.Parse(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
		}
		for _, e := range entries {
			if slices.Contains(own, e.Host) {
				e.Host = upstreams.ByNamespace(e.Namespace)
			}
			all = append(all, policy.Locked{Ref: e.Ref, Sum: e.Sum})
		}
	}
	return all, wrong
}

// openGate gives the gate its rules and first-seen times. dates may be nil.
func (a *App) openGate(ctx context.Context, dates history.Dates) error {
	rules, err := a.readRules(a.config, a.rulesSeen)
	if err != nil {
		return err
	}
	a.firstSeen = history.NewFirstSeen(history.FirstSeenConfig{Records: a.Store.Records, Ledger: a.Ledger, Dates: dates, Observe: a.observeFirstSeen})
	a.closers.add(func(context.Context) error { a.firstSeen.Close(); return nil })
	a.pending = history.NewDemand(a.Store.Records, history.PendingKind, a.observeRequests)
	a.missing = history.NewDemand(a.Store.Records, history.MissingKind, a.observeRequests)
	a.gate.FirstSeen = a.firstSeen // not earlier: the router that returns dates needs the gate
	a.use(rules)
	a.metrics.MeasurePolicy(func() bool { return a.rulesProblem() == nil })
	return a.gate.Follow(ctx)
}

// use puts rules into force.
func (a *App) use(rules *policy.Rules) {
	a.gate.Use(rules)
	if err := NeverHold(a.config, rules); err != nil {
		logEvent(a.log, "policy_groups", err)
	}
	if err := NoProviders(rules); err != nil {
		logEvent(a.log, "policy_providers", err)
	}
}

// observePolicy counts denials, and records requests for versions that wait for approval. The log entry of the request has the
// denial. In audit mode, observePolicy logs the denials that would have happened.
func (p *parts) observePolicy(e policy.Event) {
	p.metrics.Refused(string(e.Refusal.Outcome), e.Audit)
	if e.Waits != nil {
		of := e.Waits.Base() // approvals are about versions, not about their variants
		p.pending.Add(of, e.Client)
	}
	if e.Audit {
		logOutcome(p.log, "policy_audit", false, zap.Stringer("module", e.Refusal.Address), zap.String("version", e.Refusal.Version),
			zap.String("question", e.Op), zap.String("client", e.Client.DisplayName), zap.Strings("groups", e.Client.Groups),
			zap.String("outcome", string(e.Refusal.Outcome)), zap.Int("versions", max(1, e.Hidden)), errorField(e.Refusal))
	}
}

func (p *parts) observeFirstSeen(m modproxy.Address, err error) {
	if !p.isReadOnly(err) {
		logEvent(p.log, "sights_failed", err, zap.Stringer("module", m))
	}
}

func (p *parts) observeRequests(err error) { logEvent(p.log, "requests_failed", err) }

func (p *parts) observeDownloads(err error) { logEvent(p.log, "downloads_failed", err) }
