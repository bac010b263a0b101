package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/store"
)

// Package is a package that is kept, or was kept and is in the ledger.
type Package struct {
	Module  string          `json:"module"`
	Version string          `json:"version"`
	State   string          `json:"state"` // kept, evicted, superseded; or damaged, and then nothing else is known
	Size    int64           `json:"size_bytes"`
	Last    time.Time       `json:"last_used,omitzero"`
	Fetched time.Time       `json:"fetched,omitzero"`
	Sum     modproxy.Sum    `json:"sum"`
	Source  modproxy.Source `json:"source,omitzero"`
	Digest  string          `json:"digest"`          // SHA-256 of the package
	Notes   []string        `json:"notes,omitempty"` // see package pack
}

// packageLine is a line of a list.
type packageLine struct {
	Package *Package      `json:"package,omitempty"`
	Done    *store.Amount `json:"done,omitempty"` // how many there were, and their bytes
	Error   string        `json:"error,omitempty"`
}

func (s *Server) packages(w http.ResponseWriter, r *http.Request) error {
	pattern, err := parsePattern(r.URL.Query().Get("pattern"))
	if err != nil {
		return err
	}
	stream(w, func(write func(any)) {
		all, err := s.list(r.Context(), pattern, func(p *Package) { write(packageLine{Package: p}) })
		if err != nil {
			write(packageLine{Error: err.Error()})
			return
		}
		write(packageLine{Done: &all})
	})
	return nil
}

// list calls each with the packages that are kept, and then with those that the ledger
// has beside them. It returns how many there are, and their bytes.
func (s *Server) list(ctx context.Context, pattern modulePattern, each func(*Package)) (all store.Amount, err error) {
	counted := map[modproxy.Digest]bool{} // versions with the same content share its bytes
	listed := map[modproxy.ModuleVersion]bool{}
	for l, err := range s.Cache.List(ctx, modproxy.Module{}) {
		if err != nil && l.Version == "" {
			return all, err
		}
		listed[l.ModuleVersion] = true
		if !pattern.matches(l.Module) {
			continue
		}
		p := &Package{
			Module: l.Module.String(), Version: l.Version, State: "kept", Size: l.Size, Last: l.Used,
			Fetched: l.Fetched, Sum: l.Sum, Source: l.Source, Digest: l.Digest.String(),
		}
		if l.Notes != "" {
			p.Notes = strings.Split(l.Notes, "\n")
		}
		switch {
		case err != nil:
			p.State = "damaged"
		case l.Superseded:
			p.State = "superseded"
		case l.Lost:
			p.State = "evicted"
		}
		if all.Blobs++; err == nil && !l.Lost && !counted[l.Digest] {
			counted[l.Digest] = true
			all.Bytes += l.Size
		}
		each(p)
	}
	if s.Ledger == nil {
		return all, nil
	}
	gone := map[modproxy.ModuleVersion]modproxy.Record{}
	for rec, err := range s.Ledger.All(ctx) {
		if err != nil {
			return all, err
		}
		if !listed[rec.ModuleVersion] && pattern.matches(rec.Module) {
			gone[rec.ModuleVersion] = rec
		}
	}
	byName := func(a, b modproxy.ModuleVersion) int { return strings.Compare(a.String(), b.String()) }
	for _, v := range slices.SortedFunc(maps.Keys(gone), byName) {
		all.Blobs++
		each(&Package{Module: v.Module.String(), Version: v.Version, State: "evicted", Sum: gone[v].Sum, Source: gone[v].Source})
	}
	return all, nil
}

// Packages calls each with every package whose module matches the pattern, and
// returns how many there are, and their bytes.
func (c *Client) Packages(ctx context.Context, pattern string, each func(*Package) error) (all store.Amount, err error) {
	err = readStream(ctx, c, "GET", "packages?"+url.Values{"pattern": {pattern}}.Encode(), nil, func(line packageLine) (bool, error) {
		switch {
		case line.Error != "":
			return true, errors.New(line.Error)
		case line.Done != nil:
			all = *line.Done
			return true, nil
		case line.Package != nil:
			return false, each(line.Package)
		}
		return false, nil
	})
	return all, err
}

// CheckPattern returns [modproxy.ErrInvalid] unless s is a pattern of modules.
func CheckPattern(s string) error {
	_, err := parsePattern(s)
	return err
}

// modulePattern is a module address in which * stands for any part of a segment.
type modulePattern [4]string

// parsePattern reads a pattern. Its hostname may be missing, and so may all of it.
func parsePattern(s string) (modulePattern, error) {
	parts := strings.Split(s, "/")
	switch {
	case s == "":
		return modulePattern{"*", "*", "*", "*"}, nil
	case len(parts) == 3:
		parts = append([]string{"*"}, parts...)
	case len(parts) != 4:
		return modulePattern{}, fmt.Errorf("%w: pattern %.200q: want namespace/name/system, with * for any part of one, and a hostname before it or none", modproxy.ErrInvalid, s)
	}
	for _, part := range parts {
		if _, err := path.Match(part, ""); err != nil {
			return modulePattern{}, fmt.Errorf("%w: pattern %.200q: %w", modproxy.ErrInvalid, s, err)
		}
	}
	return modulePattern(parts), nil
}

func (p modulePattern) matches(m modproxy.Module) bool {
	for i, part := range []string{m.Host, m.Namespace, m.Name, m.System} {
		if ok, _ := path.Match(p[i], part); !ok { // it was checked
			return false
		}
	}
	return true
}

// Removal names the packages to remove.
type Removal struct {
	Module  string `json:"module"`
	Version string `json:"version,omitempty"` // empty: all
}

// Removed is a package that was removed.
type Removed struct {
	Module  string       `json:"module"`
	Version string       `json:"version"`
	Size    int64        `json:"size_bytes"`
	Sum     modproxy.Sum `json:"sum"`
	There   bool         `json:"there"`            // it was kept
	Shared  []string     `json:"shared,omitempty"` // what else needs its bytes, which therefore stay
}

func (s *Server) remove(w http.ResponseWriter, r *http.Request) error {
	var in Removal
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	m, err := hostname.ParseModule(in.Module, "")
	if err == nil && in.Version != "" {
		in.Version, err = modproxy.CanonicalVersion(in.Version)
	}
	if err != nil {
		return err
	}
	list, err := s.Cache.Discard(r.Context(), m.At(in.Version))
	removed := []Removed{}
	for _, d := range list {
		removed = append(removed, Removed{d.Module.String(), d.Version, d.Size, d.Sum, true, d.Shared})
	}
	if errors.Is(err, fs.ErrNotExist) { // that it could not be fetched is forgotten all the same
		removed, err = s.recorded(r.Context(), m.At(in.Version), err)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, map[string][]Removed{"packages": removed})
}

// recorded returns the versions that the ledger has, and otherwise none and err.
func (s *Server) recorded(ctx context.Context, v modproxy.ModuleVersion, err error) ([]Removed, error) {
	if s.Ledger == nil {
		return nil, err
	}
	sums := map[string]modproxy.Sum{}
	for rec, err := range s.Ledger.All(ctx) {
		if err != nil {
			return nil, err
		}
		if rec.Module == v.Module && (v.Version == "" || rec.Version == v.Version) {
			sums[rec.Version] = rec.Sum // the last one counts
		}
	}
	if len(sums) == 0 {
		return nil, err
	}
	var list []Removed
	for _, version := range slices.Sorted(maps.Keys(sums)) {
		list = append(list, Removed{Module: v.Module.String(), Version: version, Sum: sums[version]})
	}
	return list, nil
}

// Remove removes packages.
func (c *Client) Remove(ctx context.Context, in Removal) ([]Removed, error) {
	var out struct{ Packages []Removed }
	err := c.ask(ctx, "POST", "packages/remove", in, &out)
	return out.Packages, err
}

// Tidy says what to remove beside packages that crashes have left.
type Tidy struct {
	MaxSize    int64   `json:"max_size,omitempty"`   // bytes; 0: as many as there are
	Quarantine float64 `json:"quarantine,omitempty"` // seconds; 0: all of it stays
	DryRun     bool    `json:"dry_run,omitempty"`
}

// Tidied is what was removed.
type Tidied struct {
	store.Collected
	DryRun bool `json:"dry_run,omitempty"`
}

// orphanAge is how long packages without a record stay. They are what a crash left,
// or are about to have one.
const orphanAge = time.Hour

func (s *Server) tidy(w http.ResponseWriter, r *http.Request) error {
	var in Tidy
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if in.MaxSize < 0 || in.Quarantine < 0 {
		return fmt.Errorf("%w: a size, and an age, must not be less than 0", modproxy.ErrInvalid)
	}
	collected, err := s.Store.Collect(r.Context(), store.GC{
		MaxSize: in.MaxSize, OrphanAge: orphanAge, AsideAge: time.Duration(in.Quarantine * float64(time.Second)), DryRun: in.DryRun,
	})
	if err != nil {
		return err
	}
	return writeJSON(w, Tidied{collected, in.DryRun})
}

// Tidy removes what is not needed, and the least recently used packages over a size.
func (c *Client) Tidy(ctx context.Context, in Tidy) (out Tidied, err error) {
	err = c.ask(ctx, "POST", "packages/tidy", in, &out)
	return out, err
}
