package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/lock"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/sights"
)

// publicRegistries are those at which anybody can have a namespace.
var publicRegistries = []string{"registry.terraform.io", "registry.opentofu.org"}

// PolicyOf returns the rules of a configuration, with those of its files. Its error is a [config.Error].
func PolicyOf(c *config.Config) (*policy.Rules, error) {
	set, place, err := c.PolicyFiles()
	if err != nil {
		return nil, err
	}
	compiled := policy.Config{
		DefaultDeny: set.Default == "deny", Audit: set.Mode == "audit", FirstAllow: set.FirstContact == "allow", Contact: set.Contact,
	}
	for _, namespace := range set.Reserved {
		compiled.Reserved = append(compiled.Reserved, policy.Reserve{Namespace: namespace, Hosts: privateHosts(c, namespace)})
	}
	var wrong config.Error
	for i, rule := range set.Rules {
		made := policy.Rule{
			Place: place(i), Allow: rule.Allow, Deny: rule.Deny, Versions: rule.Versions, Groups: rule.Groups,
			MinAge: rule.MinAge, Reason: rule.Reason, Approval: rule.Approval == "required",
		}
		if rule.Approval != "" && !made.Approval {
			wrong = append(wrong, fmt.Errorf("%s: approval: want required, not %.80q", made.Place, rule.Approval))
		}
		if len(rule.AllowLocked) > 0 {
			if made.Locked, err = locked(rule.AllowLocked); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: allow_locked: %w", made.Place, err))
			}
		}
		compiled.Rules = append(compiled.Rules, made)
	}
	rules, err := policy.Compile(compiled)
	if err != nil {
		wrong = append(wrong, err)
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return rules, nil
}

// privateHosts returns the registries at which a reserved namespace may be asked for.
func privateHosts(c *config.Config, namespace string) (hosts []string) {
	for _, r := range c.Routes {
		if policy.MatchName(namespace, r.Namespace) {
			hosts = append(hosts, r.Upstream)
		}
	}
	if len(hosts) > 0 {
		return hosts
	}
	for _, u := range c.Upstreams {
		if u.Host != "*" && !slices.Contains(publicRegistries, u.Host) {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

// locked returns what lock files list.
func locked(globs []string) ([]policy.Locked, error) {
	all := []policy.Locked{}
	for _, glob := range globs {
		names, err := filepath.Glob(glob)
		if err != nil || len(names) == 0 {
			return nil, fmt.Errorf("%.200s: there is no such file", glob)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			entries, err := lock.Parse(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			for _, e := range entries {
				all = append(all, policy.Locked{ModuleVersion: e.ModuleVersion, Sum: e.Sum})
			}
		}
	}
	return all, nil
}

// openGate makes what the verdicts come from.
func (a *App) openGate(ctx context.Context) error {
	rules, err := PolicyOf(a.config)
	if err != nil {
		return err
	}
	a.sights = &sights.Registry{Records: a.Store.Records, Observe: a.observeSights}
	a.rulesFrom = a.config
	a.gate = &policy.Gate{Ledger: a.Ledger, Sights: a.sights}
	a.gate.Use(rules)
	a.metrics.MeasurePolicy(func() bool { return a.rulesErr.Load() == nil })
	return a.gate.Follow(ctx)
}

// rulesEvery is how often the files that rules come from are looked at.
const rulesEvery = time.Second

// stampRules returns what changes when one of the files changes that rules come from.
func (a *App) stampRules() string {
	var stamp strings.Builder
	for _, path := range a.rulesFrom.PolicyPaths() {
		names, err := filepath.Glob(path)
		fmt.Fprintln(&stamp, path, names, err)
		for _, name := range names {
			info, err := os.Stat(name)
			if err == nil {
				fmt.Fprintln(&stamp, info.Size(), info.ModTime().UnixNano(), info.Mode())
			}
		}
	}
	return stamp.String()
}

// reloadRules reads the rules of the policy again. Where there is an error in them, or elsewhere in the configuration, those
// that are in force stay. It returns the keys of the configuration that have changed.
func (a *App) reloadRules() (changed []string) {
	next, changed, err := a.config.Reload()
	var rules *policy.Rules
	if err == nil {
		rules, err = PolicyOf(next)
	}
	if err != nil {
		err = fmt.Errorf("the rules of the policy stay as they were: %w", err)
		a.rulesErr.Store(&err)
		a.log.Error("reload_failed", zap.Error(err))
		return nil
	}
	a.rulesErr.Store(nil)
	a.rulesFrom = next
	a.gate.Use(rules)
	a.log.Info("reloaded", zap.Strings("what", []string{"policy"}), zap.Int("rules", len(rules.Rules)))
	return changed
}

// observePolicy counts what is refused. A request's own entry in the log tells of it; what audit mode would refuse has an
// entry of its own.
func (a *App) observePolicy(e policy.Event) {
	a.metrics.Refused(string(e.Refusal.Outcome), e.Audit)
	if e.Audit {
		a.log.Info("policy_audit", zap.Stringer("module", e.Refusal.Module), zap.String("version", e.Refusal.Version),
			zap.String("question", e.Op), zap.String("client", e.Asker.Shown), zap.Strings("groups", e.Asker.Groups),
			zap.String("outcome", string(e.Refusal.Outcome)), zap.Int("versions", max(1, e.Hidden)), zap.Error(e.Refusal))
	}
}

func (a *App) observeSights(m modproxy.Module, err error) {
	a.log.Warn("sights_failed", zap.Stringer("module", m), zap.Error(err))
}

// rulesProblem returns why the rules in force are not those of the configuration, or nil.
func (a *App) rulesProblem() error {
	if err := a.rulesErr.Load(); err != nil {
		return *err
	}
	return nil
}
