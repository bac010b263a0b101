package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/hostname"
)

// Package is a package that is or was kept.
type Package struct {
	Module  string          `json:"module"`
	Version string          `json:"version"`
	State   string          `json:"state"` // kept, evicted, missing, superseded; or damaged, and then nothing else is known
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
	Package *Package       `json:"package,omitempty"`
	Done    *cache.Removed `json:"done,omitempty"` // how many there were, and their bytes
	Error   string         `json:"error,omitempty"`
}

func (s *Server) packages(w http.ResponseWriter, r *http.Request) error {
	pattern, err := parsePattern(r.URL.Query().Get("pattern"))
	if err != nil {
		return err
	}
	stream(w, func(write func(any)) {
		var all cache.Removed
		counted := map[modproxy.Digest]bool{} // versions with the same content share its bytes
		for l, err := range s.Cache.List(r.Context(), s.Store, modproxy.Module{}) {
			if err != nil && l.Version == "" {
				write(packageLine{Error: err.Error()})
				return
			}
			if !pattern.matches(l.Module) {
				continue
			}
			if all.Packages++; l.There && !counted[l.Record.Digest] {
				counted[l.Record.Digest] = true
				all.Bytes += l.Record.Size
			}
			write(packageLine{Package: s.describe(l, err)})
		}
		write(packageLine{Done: &all})
	})
	return nil
}

func (s *Server) describe(l cache.Listing, damage error) *Package {
	rec := l.Record
	p := &Package{
		Module: l.Module.String(), Version: l.Version, State: "missing", Size: rec.Size, Last: l.Last,
		Fetched: rec.Fetched, Sum: rec.Sum, Source: rec.Source, Digest: rec.Digest.String(),
	}
	if rec.Notes != "" {
		p.Notes = strings.Split(rec.Notes, "\n")
	}
	switch {
	case damage != nil:
		p.State = "damaged"
	case s.replaced(l.Kept):
		p.State = "superseded"
	case l.There:
		p.State = "kept"
	case l.Evicted:
		p.State = "evicted"
	}
	return p
}

// replaced reports whether the ledger has another sum of a version than its record.
func (s *Server) replaced(kept cache.Kept) bool {
	if s.Ledger == nil {
		return false
	}
	sum, err := s.RecordedSum(kept.Module, kept.Version)
	return err == nil && sum != kept.Record.Sum
}

// Packages calls each with every package whose module matches the pattern, and
// returns how many there are, and their bytes.
func (c *Client) Packages(ctx context.Context, pattern string, each func(*Package) error) (all cache.Removed, err error) {
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
	There   bool         `json:"there"`            // it was there
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
	list, err := s.Cache.Discard(r.Context(), m, in.Version)
	if err != nil {
		return err
	}
	removed := []Removed{}
	for _, d := range list {
		removed = append(removed, Removed{d.Module.String(), d.Version, d.Record.Size, d.Record.Sum, d.There, d.Shared})
	}
	return writeJSON(w, map[string][]Removed{"packages": removed})
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
	cache.Tidied
	Quarantine cache.Removed `json:"quarantine"`
	DryRun     bool          `json:"dry_run,omitempty"`
}

// orphanAge is how long packages without a record stay. They are what a crash left,
// or are about to have one.
const orphanAge = time.Hour

func (s *Server) tidy(w http.ResponseWriter, r *http.Request) (err error) {
	var in Tidy
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if in.MaxSize < 0 || in.Quarantine < 0 {
		return fmt.Errorf("%w: a size, and an age, must not be less than 0", modproxy.ErrInvalid)
	}
	out := Tidied{DryRun: in.DryRun}
	if in.Quarantine > 0 { // it counts to the bound, and so goes first
		age := time.Duration(in.Quarantine * float64(time.Second))
		if out.Quarantine, err = s.Store.Quarantined(age, !in.DryRun); err != nil {
			return err
		}
	}
	limit := in.MaxSize
	if limit > 0 && in.DryRun {
		limit += out.Quarantine.Bytes
	}
	out.Tidied, err = s.Cache.Tidy(r.Context(), cache.Tidy{MaxSize: limit, OrphanAge: orphanAge, DryRun: in.DryRun})
	if err != nil {
		return err
	}
	return writeJSON(w, out)
}

// Tidy removes what is not needed, and the least recently used packages over a size.
func (c *Client) Tidy(ctx context.Context, in Tidy) (out Tidied, err error) {
	err = c.ask(ctx, "POST", "packages/tidy", in, &out)
	return out, err
}
