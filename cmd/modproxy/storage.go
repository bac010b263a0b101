package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/disk"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/proxy"
)

// storage is what "modproxy ls", "rm", "gc" and "verify" work with.
type storage struct {
	store  *disk.Store
	cache  *cache.Registry
	book   *ledger.Log // nil: there is none, or it cannot be read
	damage error       // why the ledger cannot be read
}

// openStorage opens the storage while modproxy does not serve.
func openStorage(c *config.Config) ([]proxy.Mount, func() error, error) {
	store, err := app.OpenStore(c.Data)
	if err != nil {
		return nil, nil, err
	}
	s := &storage{store: store, cache: &cache.Registry{Index: store, Blobs: store, Uses: store, References: store.References}}
	if err := app.StayPut(s.cache, store, c); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	if _, err := os.Stat(c.LedgerDir()); !errors.Is(err, fs.ErrNotExist) {
		s.book, s.damage = ledger.OpenReadOnly(c.LedgerDir())
	}
	done := func() error {
		errs := []error{s.cache.Close(context.Background()), store.Close()}
		if s.book != nil {
			errs = append(errs, s.book.Close())
		}
		return errors.Join(errs...)
	}
	return s.mounts(), done, nil
}

// mounts are the API of the storage.
func (s *storage) mounts() []proxy.Mount {
	mount := func(method, name string, handle func(http.ResponseWriter, *http.Request) error) proxy.Mount {
		return proxy.Mount{Method: method, Path: "/-/api/packages" + name, Kind: "api", Handle: handle}
	}
	return []proxy.Mount{
		mount("GET", "", s.list),
		mount("POST", "/remove", s.remove),
		mount("POST", "/tidy", s.tidy),
		mount("POST", "/verify", s.verify),
	}
}

// stream answers with JSON objects, one in a line. What f returns becomes the last
// line, {"error": …}, unless it is nil: an answer without it that ends without an
// object that says that it is done was cut off.
func stream(w http.ResponseWriter, f func(write func(any))) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	flush := http.NewResponseController(w).Flush
	flushed := time.Now()
	f(func(line any) {
		_ = out.Encode(line) // a client that is gone ends the context
		if time.Since(flushed) > 100*time.Millisecond {
			_ = flush()
			flushed = time.Now()
		}
	})
}

// readStream calls f with each line of an answer until one has an error.
func readStream[T any](ctx context.Context, a *api, method, path string, in any, f func(T) error) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = strings.NewReader(string(text))
	}
	answer, err := a.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	for lines := json.NewDecoder(answer); ; {
		var line T
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: the answer was cut off: %w", path, err)
		}
		if err := f(line); err != nil {
			return err
		}
	}
}

// errCut: a stream ended before it said that it was done.
var errCut = errors.New("the answer was cut off: the modproxy that serves may have ended")

// listedPackage is a package as people and programs are shown it.
type listedPackage struct {
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

func describePackage(l cache.Listing, damage error) listedPackage {
	rec := l.Record
	p := listedPackage{
		Module: l.Module.String(), Version: l.Version, State: "missing", Size: rec.Size, Last: l.Last,
		Fetched: rec.Fetched, Sum: rec.Sum, Source: rec.Source, Digest: rec.Digest.String(),
	}
	if rec.Notes != "" {
		p.Notes = strings.Split(rec.Notes, "\n")
	}
	switch {
	case damage != nil:
		p.State = "damaged"
	case l.There:
		p.State = "kept"
	case l.Evicted:
		p.State = "evicted"
	}
	return p
}

// packageLine is a line of a list.
type packageLine struct {
	Package *listedPackage `json:"package,omitempty"`
	Done    *cache.Removed `json:"done,omitempty"` // how many there were, and their bytes
	Error   string         `json:"error,omitempty"`
}

func (s *storage) list(w http.ResponseWriter, r *http.Request) error {
	pattern, err := parsePattern(r.URL.Query().Get("pattern"))
	if err != nil {
		return err
	}
	stream(w, func(write func(any)) {
		var all cache.Removed
		counted := map[modproxy.Digest]bool{} // versions with the same content share its bytes
		for l, err := range s.cache.List(r.Context(), s.store, modproxy.Module{}) {
			if err != nil && l.Version == "" {
				write(packageLine{Error: err.Error()})
				return
			}
			if !pattern.matches(l.Module) {
				continue
			}
			p := describePackage(l, err)
			if err == nil && s.outdated(l.Kept) {
				p.State = "superseded"
			}
			if all.Packages++; l.There && !counted[l.Record.Digest] {
				counted[l.Record.Digest] = true
				all.Bytes += l.Record.Size
			}
			write(packageLine{Package: &p})
		}
		write(packageLine{Done: &all})
	})
	return nil
}

// outdated tells whether the ledger has another sum of a version than its record.
func (s *storage) outdated(kept cache.Kept) bool {
	if s.book == nil {
		return false
	}
	sum, err := s.pinned(kept.Module, kept.Version)
	return err == nil && sum != kept.Record.Sum
}

// modulePattern is a module address in which * stands for any part of a segment.
type modulePattern [4]string

// parsePattern reads a pattern, of which the hostname may be missing; all of it
// may. Its error is [modproxy.ErrInvalid].
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

var byteUnits = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// sizeText is a size for people.
func sizeText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	x, unit := float64(n)/1024, 1
	for ; x >= 1024 && unit < len(byteUnits)-1; unit++ {
		x /= 1024
	}
	return fmt.Sprintf("%.1f%s", x, byteUnits[unit])
}
