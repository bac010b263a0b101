package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/policy"
)

const (
	existsWithin = 10 * time.Second // time limit for all requests to registries
	maxNear      = 3                // maximum number of similar names in a message
	nearListed   = 500              // maximum number of modules of a namespace that a registry lists, to compare their names
)

// exists returns an error if the module or the version of a decision is not in the ledger, the store or a registry. It returns a
// remark if a registry could not be requested, or if no known version matches the constraint.
func (s *Server) exists(ctx context.Context, d modproxy.Decision) (remarks []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, existsWithin)
	defer cancel()
	x := existence{Server: s, about: d.Address, names: map[modproxy.Address]bool{}}
	if exact, err := modproxy.ParseVersion(d.Versions); err == nil {
		x.version, x.isExact = &exact, d.Action == modproxy.Approve
	} else if c, err := modproxy.ParseConstraint(d.Versions); err == nil && d.Versions != "" {
		if x.selects = c.Covers; d.Action == modproxy.Approve {
			x.selects = c.Allows
		}
	}
	if err := x.recorded(ctx); err != nil {
		return nil, err
	}
	if x.found() {
		return nil, nil
	}
	for _, m := range x.modules() {
		x.listed(ctx, m)
		if x.found() {
			return nil, nil
		}
	}
	if x.module && x.selects != nil {
		return append(x.unasked, fmt.Sprintf("no known version of %s matches %s: the decision is about later ones", d.Address, d.Versions)), nil
	}
	if len(x.unasked) > 0 {
		return x.unasked, nil
	}
	what := d.Address.String()
	if x.module {
		what = VersionsText(what, d.Versions)
	}
	text := what + " does not exist: it is not in the ledger, the store or a registry"
	if s.Upstreams == nil {
		text = what + " is not known: it is not in the ledger or the store, and modproxy is offline"
	}
	if near := x.near(ctx); len(near) > 0 {
		text += "; similar: " + strings.Join(near, ", ")
	}
	return nil, absent(text + "; --force decides all the same")
}

// existence finds out whether the module and the versions of a decision exist.
type existence struct {
	*Server
	about    modproxy.Address // or a glob
	version  *modproxy.Version
	isExact  bool                        // the decision is only about the build that version names
	selects  func(modproxy.Version) bool // whether the constraint of the decision selects a version; nil without a constraint
	selected bool                        // selects is true for a known version
	names    map[modproxy.Address]bool   // all known modules
	versions []string                    // the known versions of modules that about matches
	module   bool                        // about matches a known module
	exact    bool                        // version is known
	unasked  []string                    // the reasons why registries could not be requested
}

func (x *existence) found() bool {
	return x.module && (x.version == nil || x.exact) && (x.selects == nil || x.selected)
}

// see adds a known version. If its number is empty, see adds only the module.
func (x *existence) see(v modproxy.Ref) {
	x.names[v.Address] = true
	if !policy.IsAbout(modproxy.Decision{Address: x.about}, v.Address) {
		return
	}
	x.module = true
	if version, err := modproxy.ParseVersion(v.Version); err == nil {
		x.exact = x.exact || x.version != nil && version.Rank() == x.version.Rank() && (!x.isExact || version.Build() == x.version.Build())
		x.selected = x.selected || x.selects != nil && x.selects(version)
		x.versions = append(x.versions, v.Version)
	}
}

// recorded adds the versions in the ledger and the store.
func (x *existence) recorded(ctx context.Context) error {
	for r, err := range x.Ledger.All(ctx) {
		if err != nil {
			return err
		}
		if !r.IsRecordOnly() {
			x.see(versionOf(r))
		}
	}
	if x.found() || x.Cache == nil {
		return nil
	}
	for l := range x.Cache.List(ctx, modproxy.Address{}) { // a record that cannot be read names no version
		if l.Address != (modproxy.Address{}) {
			x.see(l.Base())
		}
	}
	return nil
}

// modules returns the modules whose registries can report whether they exist. Online, it returns at most 20 for a glob.
func (x *existence) modules() []modproxy.Address {
	if x.Cache == nil {
		return nil
	}
	d := modproxy.Decision{Address: x.about}
	if !d.IsGlob() {
		return []modproxy.Address{x.about}
	}
	var all []modproxy.Address
	for m := range x.names {
		if x.version != nil && policy.IsAbout(d, m) {
			all = append(all, m)
		}
	}
	if x.Upstreams == nil {
		return all
	}
	one := x.about
	for _, one.Host = range x.Upstreams.UpstreamHosts() {
		if literal := (modproxy.Decision{Address: one}); !literal.IsGlob() && policy.IsAbout(d, one) && !x.names[one] {
			all = append(all, one)
		}
	}
	return all[:min(len(all), 20)]
}

// listed adds the versions of m in the stored list. If that is not enough, it adds those that the registry lists, unless a rule
// denies m.
func (x *existence) listed(ctx context.Context, m modproxy.Address) {
	add := func(list *modproxy.Versions, err error) {
		if err != nil || len(list.List) == 0 {
			return
		}
		x.see(m.At(""))
		for _, l := range list.List {
			x.see(m.At(l.Version.String()))
		}
	}
	if add(x.Cache.StoredVersions(ctx, m)); x.found() || x.Upstreams == nil || !x.Upstreams.HasUpstream(m.Host) {
		return
	}
	err := x.Gate.Check(ctx, m.At(""))
	if err == nil {
		_, err = x.Cache.Refresh(ctx, m)
		add(x.Cache.StoredVersions(ctx, m))
	}
	switch {
	case x.found(), errors.Is(err, modproxy.ErrNotFound), errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, modproxy.ErrDenied):
		x.unasked = append(x.unasked, fmt.Sprintf("whether %s exists is not known: nothing is requested from its registry, because the policy denies the module", m))
	case err != nil:
		x.unasked = append(x.unasked, fmt.Sprintf("whether %s exists is not known: its registry is unavailable", m))
	}
}

// near returns the names that are most similar to the unknown name: names of versions if the module is known, or else of modules.
func (x *existence) near(ctx context.Context) []string {
	if x.module && x.version != nil {
		slices.Sort(x.versions)
		all := slices.Compact(x.versions)
		near := slices.DeleteFunc(slices.Clone(all), func(s string) bool { // leaves other builds of the version
			v, err := modproxy.ParseVersion(s)
			return err != nil || v.Rank() != x.version.Rank()
		})
		if len(near) == 0 {
			near = hint.Few(x.version.String(), all, maxNear)
		}
		return near[:min(len(near), maxNear)]
	}
	if about := x.about; x.Listing != nil && !strings.Contains(about.Host+about.Namespace, "*") && about.IsModule() &&
		x.Upstreams != nil && x.Upstreams.HasUpstream(about.Host) && x.Gate.CheckNamespace(ctx, about.Host, about.Namespace) == nil {
		page, err := x.Listing.List(ctx, modproxy.Query{Host: about.Host, Namespace: about.Namespace, Limit: nearListed})
		if err == nil {
			for _, summary := range page.Modules {
				x.names[summary.Address] = true
			}
		}
	}
	own := func(m modproxy.Address) string { // without the hostname, which would outweigh differences in the rest
		_, rest, _ := strings.Cut(m.Folded().String(), "/")
		return rest
	}
	var names, near []string
	for m := range x.names {
		if m.Kind() == x.about.Kind() {
			names = append(names, own(m))
		}
	}
	for _, name := range hint.Few(own(x.about), names, maxNear) {
		for m := range x.names {
			if own(m) == name && len(near) < maxNear {
				near = append(near, m.String())
			}
		}
	}
	slices.Sort(near)
	return slices.Compact(near)
}
