package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/proxy"
)

// refreshing is what "modproxy refresh" asks for, and refreshedLine a line of what it
// is told. The last line has Done.
type (
	refreshing struct {
		Modules []string `json:"modules,omitempty"`
		All     bool     `json:"all,omitempty"` // every module of which a package is or was kept
	}
	refreshedLine struct {
		Module *refreshedModule `json:"module,omitempty"`
		Done   bool             `json:"done,omitempty"`
	}
	refreshedModule struct {
		Module   string   `json:"module"`
		Versions int      `json:"versions"`
		New      []string `json:"new,omitempty"`
		Gone     []string `json:"gone,omitempty"`
		Kept     []string `json:"kept,omitempty"`  // of Gone, those that stay listed
		Error    string   `json:"error,omitempty"` // why nothing else is known
	}
)

// refresher asks registries for what is new.
type refresher struct {
	cache *cache.Registry
	hosts func(host string) bool // may be asked
}

func (r *refresher) mounts() []proxy.Mount {
	return []proxy.Mount{{Method: "POST", Path: "/-/api/modules/refresh", Kind: "api", Handle: r.refresh}}
}

func (r *refresher) refresh(w http.ResponseWriter, req *http.Request) error {
	var in refreshing
	if err := readJSON(w, req, &in); err != nil {
		return err
	}
	if r.cache.Next == nil {
		return fmt.Errorf("%w: offline, and no registry is asked", modproxy.ErrUnavailable)
	}
	modules, err := r.modules(in)
	if err != nil {
		return err
	}
	stream(w, func(write func(any)) {
		for _, m := range modules {
			if req.Context().Err() != nil {
				return
			}
			write(refreshedLine{Module: r.one(req.Context(), m)})
		}
		write(refreshedLine{Done: true})
	})
	return nil
}

// modules are those that in names.
func (r *refresher) modules(in refreshing) ([]modproxy.Module, error) {
	var list []modproxy.Module
	for _, address := range in.Modules {
		m, err := parseModule(address, "")
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	if !in.All {
		return list, nil
	}
	seen := map[modproxy.Module]bool{}
	for kept := range r.cache.Index.Packages(modproxy.Module{}) { // one that cannot be read names no module
		if m := kept.Module; m != (modproxy.Module{}) && !seen[m] && r.hosts(m.Host) {
			seen[m] = true
			list = append(list, m)
		}
	}
	return list, nil
}

func (r *refresher) one(ctx context.Context, m modproxy.Module) *refreshedModule {
	out := &refreshedModule{Module: m.String()}
	if !r.hosts(m.Host) {
		out.Error = fmt.Sprintf("%s: %s is not among upstreams", m, m.Host)
		return out
	}
	got, err := r.cache.Refresh(ctx, m)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.Versions, out.New, out.Gone, out.Kept = got.Versions, got.New, got.Gone, got.Kept
	return out
}

func newRefreshCommand(env *environment) *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "refresh MODULE… | --all",
		Short: "Ask registries now which versions modules have",
		Long: `Ask upstream which versions a module has, even if the kept list is fresh, and print
in one line what is new and what is gone. modproxy also forgets that a version was
absent or could not be fetched, so that a version published a moment ago can be
installed.

A version that is gone upstream stays listed if its package is kept.

MODULE is a module address; without its hostname, one of the first upstream. --all
stands for every module of which a package is or was kept.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return misuse{errors.New("want the addresses of modules, or --all")}
			}
			c, err := env.settings()
			if err != nil {
				return err
			}
			in := refreshing{All: all}
			for _, arg := range args {
				q, err := choose(c, []string{arg})
				if err != nil {
					return err
				}
				in.Modules = append(in.Modules, q.module.String())
			}
			open := func(*config.Config) ([]proxy.Mount, func() error, error) { return env.openRefresher(cmd.Context()) }
			return withAPI(cmd.Context(), c, open, func(a *api) error {
				return env.refresh(cmd.Context(), a, in, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every module of which a package is or was kept")
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON, one module in a line: {"module": …, "versions": …, "new": […], "gone": […], "kept": […]}`)
	return cmd
}

// openRefresher makes what asks registries while modproxy does not serve. It is for
// nobody but this process, and so it asks nobody who they are.
func (env *environment) openRefresher(ctx context.Context) ([]proxy.Mount, func() error, error) {
	c, _, err := env.load()
	if err != nil {
		return nil, nil, err
	}
	inside := *c
	inside.Anonymous = true
	a, err := app.Open(ctx, &inside, app.Options{Version: buildVersion()})
	if err != nil {
		return nil, nil, err
	}
	if why := a.Store.ReadOnly(); why != nil {
		return nil, nil, errors.Join(fmt.Errorf("the data directory is read-only: %w", why), a.Close())
	}
	ask := &refresher{cache: a.Cache, hosts: c.HasUpstream}
	return ask.mounts(), a.Close, nil
}

// refresh prints what the API says. Its error has those of the modules.
func (env *environment) refresh(ctx context.Context, a *api, in refreshing, asJSON bool) error {
	out := json.NewEncoder(env.stdout)
	out.SetEscapeHTML(false)
	var failed problems
	done := false
	err := readStream(ctx, a, "POST", "/-/api/modules/refresh", in, func(line refreshedLine) error {
		m := line.Module
		switch {
		case line.Done:
			done = true
		case m == nil:
		case m.Error != "":
			failed = append(failed, errors.New(m.Error))
			if asJSON {
				return out.Encode(m)
			}
		case asJSON:
			return out.Encode(m)
		default:
			_, err := fmt.Fprintln(env.stdout, m)
			return err
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(failed) > 0:
		return failed
	case !done:
		return errCut
	}
	return nil
}

// maxShown is how many versions are named to a person.
const maxShown = 20

// String is what became of the module in one line.
func (m refreshedModule) String() string {
	name := func(list []string) string {
		more := ""
		if n := len(list) - maxShown; n > 0 {
			list, more = list[:maxShown], fmt.Sprintf(" and %d more", n)
		}
		return strings.Join(list, ", ") + more
	}
	var said []string
	if len(m.New) > 0 {
		said = append(said, "new: "+name(m.New))
	}
	var gone []string
	for _, version := range m.Gone {
		if slices.Contains(m.Kept, version) {
			version += " (kept, and listed all the same)"
		}
		gone = append(gone, version)
	}
	if len(gone) > 0 {
		said = append(said, "gone: "+name(gone))
	}
	if len(said) == 0 {
		said = append(said, fmt.Sprintf("unchanged, %d versions", m.Versions))
	}
	return m.Module + ": " + strings.Join(said, "; ")
}
