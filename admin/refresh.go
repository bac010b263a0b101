package admin

import (
	"context"
	"fmt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/hostname"
)

// Refresh says which modules to ask registries for.
type Refresh struct {
	Modules []string `json:"modules,omitempty"`
	All     bool     `json:"all,omitempty"` // every module of which a package is or was kept
}

// Refreshed is what a registry answered about the versions of one module.
type Refreshed struct {
	Module string `json:"module"`
	cache.Refreshed
	Error string `json:"error,omitempty"` // why nothing else is known
}

func (s *Server) refresh(ctx context.Context, in Refresh, each func(Refreshed)) (done none, err error) {
	if s.Upstreams == nil {
		return done, fmt.Errorf("%w: offline, and no registry is asked", modproxy.ErrUnavailable)
	}
	var modules []modproxy.Module
	for _, address := range in.Modules {
		m, err := hostname.ParseModule(address, "")
		if err != nil {
			return done, err
		}
		modules = append(modules, m)
	}
	if in.All {
		modules = append(modules, s.keptModules(ctx)...)
	}
	for _, m := range modules {
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
		out, err := Refreshed{Module: m.String()}, fmt.Errorf("%s: %s is not among upstreams", m, m.Host)
		if s.Upstreams.HasUpstream(m.Host) {
			out.Refreshed, err = s.Cache.Refresh(ctx, m)
		}
		if err != nil {
			out.Error = err.Error()
		}
		each(out)
	}
	return done, nil
}

// keptModules returns the modules of which packages are or were kept, and of which the registry may be asked.
func (s *Server) keptModules(ctx context.Context) []modproxy.Module {
	var list []modproxy.Module
	seen := map[modproxy.Module]bool{}
	for p := range s.Cache.List(ctx, modproxy.Module{}) { // one that cannot be read names no module
		if m := p.Module; m != (modproxy.Module{}) && !seen[m] && s.Upstreams.HasUpstream(m.Host) {
			seen[m] = true
			list = append(list, m)
		}
	}
	return list
}

// Refresh asks registries now which versions modules have, and calls each with every module.
func (c *Client) Refresh(ctx context.Context, in Refresh, each func(Refreshed) error) error {
	_, err := ask[Refreshed, none](ctx, c, "POST", "modules/refresh", in, each)
	return err
}
