package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/tfconfig"
)

// Dependencies are the modules and providers that an installation of a version requires, according to its configuration.
type Dependencies struct {
	Calls     []DependencyCall     `json:"calls,omitempty"`
	Providers []DependencyProvider `json:"providers,omitempty"`
	Problems  []string             `json:"problems,omitempty"` // mistakes in the configuration, with file and line; the lists may then be incomplete
}

// A DependencyCall is a call of a module that is not in the package.
type DependencyCall struct {
	tfconfig.Call
	Bypass bool            `json:"bypass,omitempty"` // the source is known, but clients do not download it through the proxy
	Client tfconfig.Client `json:"client,omitempty"` // the only client that reads this call; empty: both do
}

// A DependencyProvider is a required provider.
type DependencyProvider struct {
	tfconfig.Requirement
	Client tfconfig.Client `json:"client,omitempty"` // as in a DependencyCall
}

// dependencies reads the dependencies of a cached package.
func (s *Server) dependencies(ctx context.Context, kept *cache.StoredPackage) (*Dependencies, error) {
	tree := tfconfig.PackageTree(kept.Digest, func() (io.ReadCloser, error) { return s.Store.Open(ctx, kept.Digest, kept.Size) })
	out := &Dependencies{}
	calls, providers := map[string]*DependencyCall{}, map[tfconfig.Requirement]*DependencyProvider{}
	for _, client := range []tfconfig.Client{tfconfig.Terraform, tfconfig.OpenTofu} {
		c, err := s.Configurations.Read(ctx, tree, tfconfig.Options{Client: client, Dir: kept.Subdir, Submodules: true})
		if err != nil {
			return nil, err
		}
		for _, call := range c.Calls {
			call.From, call.Args = nil, nil // Pos is enough to identify the call
			text, _ := json.Marshal(call)   // a call always marshals
			one := calls[string(text)]
			if one == nil {
				_, _, registry := tfconfig.ParseRegistrySource(call.Source, tfconfig.DefaultHosts[client])
				one = &DependencyCall{Call: call, Bypass: call.Source != "" && !registry, Client: client}
				if one.Bypass && s.Nested != nil {
					_, _, fetched := s.Nested.Source(kept.Ref, call.Source)
					one.Bypass = !fetched
				}
				calls[string(text)] = one
			}
			if one.Client != client {
				one.Client = ""
			}
		}
		for _, r := range c.Providers {
			if providers[r] == nil {
				providers[r] = &DependencyProvider{r, client}
			} else if providers[r].Client != client {
				providers[r].Client = ""
			}
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
	slices.SortFunc(out.Calls, func(a, b DependencyCall) int {
		return cmp.Or(a.Pos.Compare(b.Pos), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Version, b.Version))
	})
	slices.SortFunc(out.Providers, func(a, b DependencyProvider) int {
		return cmp.Or(a.Pos.Compare(b.Pos), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Client, b.Client))
	})
	return out, nil
}
