package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/closure"
)

// Brings is what installing a version brings besides, as its own configuration says.
type Brings struct {
	Calls     []BroughtCall     `json:"calls,omitempty"`
	Providers []BroughtProvider `json:"providers,omitempty"`
	Problems  []string          `json:"problems,omitempty"` // what is wrong, with file and line: this may not be all
}

// BroughtCall is a call of a module that is not in the package.
type BroughtCall struct {
	closure.Call
	Bypass bool           `json:"bypass,omitempty"` // the source is known, and is no module of a registry
	Client closure.Client `json:"client,omitempty"` // the only one that reads it so; empty: each does
}

// BroughtProvider is a provider that is required.
type BroughtProvider struct {
	closure.Requirement
	Client closure.Client `json:"client,omitempty"` // as in a BroughtCall
}

// brings reads what a package that is kept brings.
func (s *Server) brings(ctx context.Context, kept *cache.Kept) (*Brings, error) {
	tree := closure.Package(kept.Digest, func() (io.ReadCloser, error) { return s.Store.Open(ctx, kept.Digest, kept.Size) })
	out := &Brings{}
	calls, providers := map[string]*BroughtCall{}, map[string]*BroughtProvider{}
	clients := []closure.Client{closure.Terraform, closure.OpenTofu}
	for _, client := range clients {
		c, err := s.Configurations.Read(ctx, tree, closure.Options{Client: client, Dir: kept.Subdir, Submodules: true})
		if err != nil {
			return nil, err
		}
		for _, call := range c.Calls {
			call.From, call.Args = nil, nil // where it is written says enough
			_, _, registry := closure.Registry(call.Source, closure.Hosts[client])
			one := &BroughtCall{Call: call, Bypass: call.Source != "" && !registry, Client: client}
			unite(calls, call, one, func(both *BroughtCall) { both.Client = "" })
		}
		for _, r := range c.Providers {
			unite(providers, r, &BroughtProvider{r, client}, func(both *BroughtProvider) { both.Client = "" })
		}
		for _, p := range c.Problems {
			if text := p.String(); !slices.Contains(out.Problems, text) {
				out.Problems = append(out.Problems, text)
			}
		}
	}
	for _, call := range calls {
		out.Calls = append(out.Calls, *call)
	}
	for _, p := range providers {
		out.Providers = append(out.Providers, *p)
	}
	slices.SortFunc(out.Calls, func(a, b BroughtCall) int {
		return cmp.Or(a.Pos.Compare(b.Pos), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Version, b.Version))
	})
	slices.SortFunc(out.Providers, func(a, b BroughtProvider) int {
		return cmp.Or(a.Pos.Compare(b.Pos), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Client, b.Client))
	})
	return out, nil
}

// unite puts v into all, or tells what is there that it is the same.
func unite[V any](all map[string]*V, what any, v *V, same func(*V)) {
	text, _ := json.Marshal(what) // which always marshals
	if have := all[string(text)]; have != nil {
		same(have)
		return
	}
	all[string(text)] = v
}
