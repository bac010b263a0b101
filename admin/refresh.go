package admin

import (
	"context"
	"fmt"
	"net/http"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// Refresh says which modules to ask registries for.
type Refresh struct {
	Modules []string `json:"modules,omitempty"`
	All     bool     `json:"all,omitempty"` // every module of which a package is or was kept
}

// Refreshed is what a registry answered about the versions of one module.
type Refreshed struct {
	Module   string   `json:"module"`
	Versions int      `json:"versions"`
	New      []string `json:"new,omitempty"`
	Gone     []string `json:"gone,omitempty"`
	Kept     []string `json:"kept,omitempty"`  // of Gone, those that stay listed
	Error    string   `json:"error,omitempty"` // why nothing else is known
}

// refreshLine is a line of the answer. The last one has Done.
type refreshLine struct {
	Module *Refreshed `json:"module,omitempty"`
	Done   bool       `json:"done,omitempty"`
}

func (s *Server) refresh(w http.ResponseWriter, r *http.Request) error {
	var in Refresh
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if s.Upstreams == nil {
		return fmt.Errorf("%w: offline, and no registry is asked", modproxy.ErrUnavailable)
	}
	var modules []modproxy.Module
	for _, address := range in.Modules {
		m, err := hostname.ParseModule(address, "")
		if err != nil {
			return err
		}
		modules = append(modules, m)
	}
	if in.All {
		modules = append(modules, s.keptModules(r.Context())...)
	}
	stream(w, func(write func(any)) {
		for _, m := range modules {
			if r.Context().Err() != nil {
				return
			}
			write(refreshLine{Module: s.refreshModule(r.Context(), m)})
		}
		write(refreshLine{Done: true})
	})
	return nil
}

// keptModules returns the modules of which packages are or were kept, and of which
// the registry may be asked.
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

func (s *Server) refreshModule(ctx context.Context, m modproxy.Module) *Refreshed {
	out := &Refreshed{Module: m.String()}
	if !s.Upstreams.HasUpstream(m.Host) {
		out.Error = fmt.Sprintf("%s: %s is not among upstreams", m, m.Host)
		return out
	}
	got, err := s.Cache.Refresh(ctx, m)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.Versions, out.New, out.Gone, out.Kept = got.Versions, got.New, got.Gone, got.Kept
	return out
}

// Refresh asks registries now which versions modules have, and calls each with every
// module.
func (c *Client) Refresh(ctx context.Context, in Refresh, each func(Refreshed) error) error {
	return readStream(ctx, c, "POST", "modules/refresh", in, func(line refreshLine) (bool, error) {
		if line.Module == nil {
			return line.Done, nil
		}
		return line.Done, each(*line.Module)
	})
}
