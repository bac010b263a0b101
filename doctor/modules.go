package doctor

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/upstream/tags"
)

const ownModules = "own modules"

func hasModules(c *config.Config) bool { return len(c.Modules) > 0 }

// atOnce is the number of repositories that are requested at the same time.
const atOnce = 8

// modules examines own modules: their host, their records and their repositories.
func (e *examination) modules(ctx context.Context) (found []Finding) {
	own := e.Config.OwnHost()
	name := hostOf("//" + own)
	if _, err := netip.ParseAddr(name); err == nil || hostname.IsLocal(name) {
		found = append(found, finding("modules_host", own, "the addresses of own modules begin with it, in the ledger, in lock files and in source addresses"))
	}
	found = append(found, e.recordsElsewhere(ctx)...)
	if !e.Config.Offline {
		found = append(found, e.repositories(ctx)...)
	}
	return found
}

// recordsElsewhere finds namespaces of own modules with records only under a host that is neither that of own modules nor an upstream, in
// a ledger that does not have the host of own modules, such as that of a proxy that is offline.
func (e *examination) recordsElsewhere(ctx context.Context) (found []Finding) {
	l, err := ledger.OpenReadOnly(e.Config.LedgerDir())
	if err != nil {
		return nil // the check of the data directory reports it
	}
	defer l.Close()
	if l.Own() != "" {
		return nil // the check of the data directory has compared it
	}
	hosts := map[string][]string{} // by folded namespace
	for r, err := range l.All(ctx) {
		if err != nil {
			return nil
		}
		if folded := strings.ToLower(r.Namespace); r.IsModule() && !slices.Contains(hosts[folded], r.Host) {
			hosts[folded] = append(hosts[folded], r.Host)
		}
	}
	own := e.Config.OwnHost()
	for _, namespace := range e.Config.OwnNamespaces() {
		all := hosts[strings.ToLower(namespace)]
		isForeign := func(host string) bool { return !slices.Contains(e.Config.UpstreamHosts(), host) }
		if i := slices.IndexFunc(all, isForeign); i >= 0 && !slices.Contains(all, own) {
			found = append(found, finding("modules_elsewhere", all[i], "modules of %s are recorded under it, and not under the host of own modules, %s", namespace, own))
		}
	}
	return found
}

// repositories requests the tags of each entry of modules.
func (e *examination) repositories(ctx context.Context) (found []Finding) {
	modules, done, err := app.OpenModules(e.Config, app.Options{Version: e.Version})
	if err != nil {
		return []Finding{finding("modules_unavailable", "modules", "%v", err)}
	}
	defer done()
	mappings := e.Config.Mappings()
	results := make([][]Finding, len(mappings))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, m := range mappings {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = e.repository(ctx, modules, m)
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		e.skip(ownModules, "not all repositories were requested in time")
	}
	return slices.Concat(results...)
}

// repository requests the tags of an entry of modules. For an entry whose repository has a placeholder, it requests a repository that
// probably does not exist, and any answer will do.
func (e *examination) repository(ctx context.Context, modules *tags.Registry, m tags.Mapping) []Finding {
	if ctx.Err() != nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	module := m.Sample("modproxy-doctor")
	module.Host = e.Config.OwnHost()
	one := func(kind, format string, args ...any) []Finding {
		return []Finding{finding(kind, module.Host+"/"+m.String(), format, args...)}
	}
	i, err := modules.Inspect(limited, module)
	_, isExact := m.Exact()
	isGuess := strings.Contains(m.Describe().Repository, "{")
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, modproxy.ErrDenied) && !errors.Is(err, egress.ErrRefused) && !isGuess:
		return one("modules_denied", "%v", err)
	case errors.Is(err, modproxy.ErrNotFound) && !isGuess:
		return one("modules_empty", "%v", err)
	case errors.Is(err, egress.ErrRefused):
		f := one("modules_unavailable", "%v", err)
		f[0] = f[0].with("if the destination is right, add " + m.Origin(e.Config.Mirrors()).Hostname() + " to egress.allow")
		return f
	case errors.Is(err, modproxy.ErrDenied), errors.Is(err, modproxy.ErrNotFound):
		return nil
	case err != nil:
		return one("modules_unavailable", "%v%s", err, clockText(err))
	case len(i.Ambiguous) > 0:
		more := ""
		if len(i.Ambiguous) > 1 {
			more = ", and other versions are ambiguous, too"
		}
		return one("modules_ambiguous", "%s: %s%s", i.Ambiguous[0].Version, i.Ambiguous[0].Why, more)
	case len(i.Versions) == 0 && isExact:
		return one("modules_empty", "%s has %d tags, and no tag has the form %s", i.Repository, len(i.Others), strings.Join(i.Forms, " or "))
	}
	return nil
}
