package closure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apparentlymart/go-versions/versions"
	"github.com/apparentlymart/go-versions/versions/constraints"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/lockfile"
	"github.com/modproxy/modproxy/tfconfig"
)

// ChooseProvider returns the version of a provider that the clients choose from a list (EnsureProviderVersions in
// internal/providercache/installer.go of both). Terms are version constraints; some may be empty. The error is a message for users.
func ChooseProvider(list []modproxy.Listed, terms ...string) (string, error) {
	var all constraints.IntersectionSpec
	for _, term := range terms {
		if term == "" {
			continue
		}
		if _, err := modproxy.ParseConstraint(term); err != nil { // as the clients do first; the parser below panics on large numbers
			return "", err
		}
		spec, err := constraints.ParseRubyStyleMulti(term)
		if err != nil {
			return "", invalid("version constraint %.80q: %w", term, err)
		}
		all = append(all, spec...)
	}
	wanted := versions.MeetingConstraints(all)
	var best, newest versions.Version
	for _, l := range list {
		v, err := versions.ParseVersion(l.Version.String())
		if err != nil {
			continue
		}
		if newest == versions.Unspecified || v.GreaterThan(newest) {
			newest = v
		}
		if wanted.Has(v) && (best == versions.Unspecified || v.GreaterThan(best)) {
			best = v
		}
	}
	switch {
	case best != versions.Unspecified:
		return best.String(), nil
	case newest == versions.Unspecified:
		return "", errors.New("it has no versions")
	case len(all) == 0:
		return "", fmt.Errorf("it has only pre-releases, up to %s: a version constraint must name a pre-release to choose it", newest)
	}
	return "", fmt.Errorf("no version matches %q; the newest is %s", joined(terms), newest)
}

// joined returns constraints as one constraint, without duplicates.
func joined(terms []string) string {
	terms = slices.DeleteFunc(slices.Clone(terms), func(s string) bool { return s == "" })
	slices.Sort(terms)
	return strings.Join(slices.Compact(terms), ", ")
}

// required holds the requirements of all modules of a configuration for one provider.
type required struct {
	terms []string
	at    []Step // to the first requirement
	found tfconfig.Requirement
}

// providers finds the providers of all roots. It runs when all calls are known.
func (r *walk) providers(ctx context.Context) {
	for _, root := range r.roots {
		all := map[modproxy.Address]*required{}
		met := map[*node]bool{}
		var visit func(n *node)
		visit = func(n *node) {
			if met[n] {
				return
			}
			met[n] = true
			for _, p := range n.providers {
				r.require(root, n, p, all)
			}
			for _, e := range n.edges {
				visit(e.to)
			}
		}
		visit(root.node)
		for _, m := range slices.SortedFunc(maps.Keys(all), func(a, b modproxy.Address) int { return cmp.Compare(a.String(), b.String()) }) {
			r.follow(ctx, task{client: root.client, from: root.node, root: root, provider: m, required: all[m]})
		}
	}
	r.workers.Wait()
}

// require adds the requirement of a module to all, the requirements of its configuration.
func (r *walk) require(root *root, n *node, p tfconfig.Requirement, all map[modproxy.Address]*required) {
	at := slices.Clip(n.chain)
	if p.Pos != (tfconfig.Pos{}) {
		at = append(at, Step{n.module, p.Pos})
	}
	f := Found{Client: root.client, Chain: at, Source: tfconfig.RedactSource(p.Source), Constraint: p.Version, Provider: true}
	m, err := tfconfig.ParseProviderSource(p.Source, tfconfig.DefaultHosts[root.client])
	if err != nil {
		f.Kind, f.Err = Trouble, err
		r.tell(fmt.Sprint(at), f)
		return
	}
	if tfconfig.IsBuiltin(m) {
		return
	}
	if all[m] == nil {
		all[m] = &required{at: at, found: p}
	}
	all[m].terms = append(all[m].terms, p.Version)
}

// locked returns the version of a provider in the lock file of a configuration, or the empty string. OpenTofu converts the entries of a
// lock file of Terraform (UpgradeFromPredecessorProject in its internal/depsfile/locks.go).
func (r *root) locked(m modproxy.Address) string {
	if version := r.locks[m]; version != "" {
		return version
	}
	if r.client == tfconfig.OpenTofu && m.Host == tfconfig.DefaultHosts[tfconfig.OpenTofu] && m.Namespace == "hashicorp" {
		m.Host = tfconfig.DefaultHosts[tfconfig.Terraform]
		return r.locks[m]
	}
	return ""
}

// lock adds the entries of the lock file of a configuration.
func (r *root) lock(all []tfconfig.Lock) {
	for _, l := range all {
		if m, err := tfconfig.ParseProviderSource(l.Source, tfconfig.DefaultHosts[r.client]); err == nil {
			r.locks[m] = l.Version
		}
	}
}

// provide downloads the release of a provider, and its packages.
func (r *walk) provide(ctx context.Context, t task) {
	f := Found{
		Client: t.client, Chain: t.required.at, Source: tfconfig.RedactSource(t.required.found.Source), Constraint: joined(t.required.terms), Subdir: ".", Provider: true,
	}
	tell := func(at any, kind FoundKind, err error) {
		f.Kind, f.Err = kind, err
		r.tell(fmt.Sprint(at), f)
	}
	m, err := r.Routes.Upstream(t.provider)
	if err != nil {
		tell(f.Chain, Bypass, err)
		return
	}
	f.Module = m.At("")
	list, err := r.versions(ctx, m)
	if err != nil {
		tell("", Trouble, err)
		return
	}
	version, err := ChooseProvider(list.List, t.required.terms...)
	if lock := t.root.locked(t.provider); lock != "" {
		if version, err = ChooseProvider(list.List, append(t.required.terms, "= "+lock)...); err != nil {
			err = fmt.Errorf("%s has %s: %w", lockfile.Name, lock, err)
		}
	}
	if err != nil {
		tell(f.Chain, Trouble, fmt.Errorf("%s: %w", m, err))
		return
	}
	of := m.At(version)
	if !r.provided(ctx, f, of) { // the release lists the packages
		return
	}
	platforms := t.root.platforms
	if len(platforms) == 0 {
		platforms = r.Platforms
	}
	for _, platform := range platforms {
		r.provided(ctx, f, of.ForPlatform(platform))
	}
}

// provided reports and downloads a release, or a package of one. It reports whether that succeeded.
func (r *walk) provided(ctx context.Context, f Found, v modproxy.Ref) bool {
	f.Module, f.Kind = v, Chosen
	r.tell("", f)
	_, err := r.bring(ctx, f)
	if err != nil {
		f.Kind, f.Err = Trouble, err
		r.tell("", f)
	}
	return err == nil
}
