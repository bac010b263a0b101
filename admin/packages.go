package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/store"
)

// A Package is a cached package, or an evicted one that is in the ledger.
type Package struct {
	versionname.Name
	State   string          `json:"state"` // kept, evicted, superseded or damaged; if damaged, only Name is known
	Size    int64           `json:"size_bytes"`
	Last    time.Time       `json:"last_used,omitzero"`
	Fetched time.Time       `json:"fetched,omitzero"`
	Sum     modproxy.Sum    `json:"sum"`
	Source  modproxy.Source `json:"source,omitzero"`
	Digest  modproxy.Digest `json:"digest,omitzero"` // SHA-256 of the package
	Notes   []string        `json:"notes,omitempty"` // see package pack

	Blocked    *modproxy.Decision `json:"blocked,omitempty"`
	Deprecated *modproxy.Decision `json:"deprecated,omitempty"`
}

// A ListRequest selects the packages of modules that match a pattern, see [ParsePattern].
type ListRequest struct {
	Pattern string `json:"pattern,omitempty"`
}

// packages lists the cached packages, then the other versions in the ledger. It counts both.
func (s *Server) packages(ctx context.Context, in ListRequest, each func(Package)) (all store.Amount, err error) {
	pattern, err := ParsePattern(in.Pattern)
	if err != nil {
		return all, err
	}
	matches := func(m modproxy.Address) bool {
		ok, _ := path.Match(pattern, m.String()) // ParsePattern has checked the pattern
		return ok || pattern == ""
	}
	counted, listed := hashSet{}, hashSet{} // by content, so that shared bytes count once; and by version
	for l, err := range s.Cache.List(ctx, modproxy.Address{}) {
		if err != nil && l.Version == "" {
			return all, err
		}
		listed.add(hashOf(l.Ref))
		if !matches(l.Address) {
			continue
		}
		p := Package{
			Name: versionname.Of(l.Ref), State: "kept", Size: l.Size, Last: l.Used, Fetched: l.Fetched, Sum: l.Sum, Source: l.Source,
			Digest: l.Digest,
		}
		if l.Notes != "" && s.mayRead(ctx, l.Address) == nil { // the notes name files
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
		if all.Blobs++; err == nil && !l.Lost && counted.add(shortHash(l.Digest[:len(shortHash{})])) {
			all.Bytes += l.Size
		}
		if err := s.decided(ctx, l.Ref, &p); err != nil {
			return all, err
		}
		each(p)
	}
	evicted, err := s.evicted(ctx, func(v modproxy.Ref) bool { return matches(v.Address) && listed.add(hashOf(v)) })
	if err != nil {
		return all, err
	}
	for _, key := range evicted {
		v, _ := cache.VersionOf(store.Ref{Kind: cache.PackageKind, Key: key}) // the key is from RefOf
		rec, err := s.Ledger.Lookup(ctx, v)
		if err != nil {
			return all, err
		}
		all.Blobs++
		p := Package{Name: versionname.Of(v), State: "evicted", Sum: rec.Sum, Source: rec.Source}
		if err := s.decided(ctx, v, &p); err != nil {
			return all, err
		}
		each(p)
	}
	return all, nil
}

// evicted returns the store keys of the recorded versions that are not listed yet, in order. It returns keys only, because whole
// records would need much memory.
func (s *Server) evicted(ctx context.Context, unlisted func(modproxy.Ref) bool) (keys []string, err error) {
	if s.Ledger == nil {
		return nil, nil
	}
	for rec, err := range s.Ledger.All(ctx) {
		if err != nil {
			return nil, err
		}
		if (rec.IsListed() || rec.IsArchive()) && unlisted(rec.Ref) { // other variants belong to their version
			keys = append(keys, cache.RefOf(rec.Ref).Key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// shortHash is the first half of a SHA-256 digest. It identifies a version or content, and needs half the memory.
type shortHash [sha256.Size / 2]byte

func hashOf(v modproxy.Ref) shortHash {
	sum := sha256.Sum256([]byte(v.String()))
	return shortHash(sum[:sha256.Size/2])
}

type hashSet map[shortHash]struct{}

// add adds h, and reports whether it was absent.
func (all hashSet) add(h shortHash) bool {
	n := len(all)
	all[h] = struct{}{}
	return len(all) > n
}

// decided adds the decisions about v to p.
func (s *Server) decided(ctx context.Context, v modproxy.Ref, p *Package) error {
	if s.Gate == nil {
		return nil
	}
	about, err := s.Gate.Decisions(ctx, v)
	p.Blocked, p.Deprecated = about.Block, about.Deprecation
	return err
}

// counting returns the records that count for the chosen versions, in the order of their names.
func (s *Server) counting(ctx context.Context, chosen func(modproxy.Ref) bool) ([]Record, error) {
	list, err := s.history(ctx, chosen)
	list = slices.DeleteFunc(list, func(r Record) bool { return !r.Counts })
	slices.SortFunc(list, func(a, b Record) int { return strings.Compare(a.String(), b.String()) })
	return list, err
}

// ParsePattern parses a pattern of addresses and returns it in the form for [path.Match]. In a pattern, * matches any part of a
// segment. The hostname may be missing. As in [hostname.ParseAddress], three segments are a module without a hostname unless the
// first segment is a hostname. The empty pattern stays empty and matches every address.
func ParsePattern(s string) (string, error) {
	host, _, _ := strings.Cut(s, "/")
	switch n := strings.Count(s, "/"); {
	case s == "":
		return "", nil
	case n == 1, n == 2 && !strings.ContainsAny(host, ".:"):
		s = "*/" + s
	case n != 2 && n != 3:
		return "", fmt.Errorf("%w: pattern %.200q: want namespace/name/system or namespace/type, with * for any part of a segment, "+
			"and optionally a hostname before it", modproxy.ErrInvalid, s)
	}
	if _, err := path.Match(s, ""); err != nil {
		return "", fmt.Errorf("%w: pattern %.200q: %w", modproxy.ErrInvalid, s, err)
	}
	return s, nil
}

// A RemovedPackage is a removed package.
type RemovedPackage struct {
	versionname.Name
	Size   int64        `json:"size_bytes"`
	Sum    modproxy.Sum `json:"sum"`
	There  bool         `json:"there"`            // the package was cached
	Shared []string     `json:"shared,omitempty"` // other versions that need the same bytes, which therefore stay
}

// A RemoveRequest selects the packages to remove.
type RemoveRequest struct {
	versionname.Name
	All    bool `json:"all,omitempty"`     // all versions of the module; Version must then be empty
	DryRun bool `json:"dry_run,omitempty"` // remove nothing
}

func (s *Server) remove(ctx context.Context, in RemoveRequest, each func(RemovedPackage)) (done none, err error) {
	v, err := in.Parse("")
	switch {
	case err != nil:
		return done, err
	case in.All == (v.Version != ""):
		return done, fmt.Errorf("%w: want a version of %s, or all", modproxy.ErrInvalid, v.Address)
	}
	var removed []cache.Discarded
	if in.DryRun {
		removed, err = s.discardable(ctx, v)
	} else {
		removed, err = s.Cache.Discard(ctx, v)
	}
	if errors.Is(err, fs.ErrNotExist) { // Discard has also removed the memory of failed downloads
		chosen, _ := LedgerQuery{Name: in.Name}.choose()
		records, errLedger := s.counting(ctx, chosen)
		for _, rec := range records {
			each(RemovedPackage{Name: rec.Name, Sum: rec.Sum})
		}
		if errLedger != nil || len(records) > 0 {
			err = errLedger
		}
	}
	if err != nil {
		return done, err
	}
	for _, d := range removed {
		each(RemovedPackage{versionname.Of(d.Ref), d.Size, d.Sum, true, d.Shared})
	}
	return done, nil
}

// discardable returns the packages that Discard would remove for v, in the same form.
func (s *Server) discardable(ctx context.Context, v modproxy.Ref) (all []cache.Discarded, err error) {
	for l, err := range s.Cache.List(ctx, v.Address) {
		if err != nil && l.Version == "" {
			return nil, err
		}
		if !l.Lost && l.Address == v.Address && (v.Version == "" || l.Ref == v || l.IsArchive() && l.Base() == v) {
			all = append(all, cache.Discarded{StoredPackage: l.StoredPackage})
		}
	}
	if len(all) == 0 {
		return nil, absent(v.Shown() + ": no package is cached")
	}
	goes := func(v modproxy.Ref) bool {
		return slices.ContainsFunc(all, func(d cache.Discarded) bool { return d.Ref == v })
	}
	for i := range all {
		needing, err := s.Store.Records.Needing(ctx, all[i].Digest)
		if err != nil {
			return nil, err
		}
		for _, rec := range needing {
			if other, ok := cache.VersionOf(rec.Ref); ok && !goes(other) {
				all[i].Shared = append(all[i].Shared, other.Shown())
			}
		}
	}
	return all, nil
}

// A RemovablePackage is a package that a dry run would remove.
type RemovablePackage struct {
	versionname.Name                 // zero for a package without a record
	Digest           modproxy.Digest `json:"digest"`
	Size             int64           `json:"size_bytes"`
}

// A CollectResult counts what was removed, or would be removed in a dry run.
type CollectResult struct {
	store.Collected
	Remark string `json:"remark,omitempty"` // why more remains than the requested size
}

// collect removes data that no record needs, and the least recently used packages over a size.
func (s *Server) collect(ctx context.Context, in store.Collection, each func(RemovablePackage)) (out CollectResult, err error) {
	if in.MaxSize < 0 || in.QuarantineAge < 0 {
		return out, fmt.Errorf("%w: the size and the age must not be less than 0", modproxy.ErrInvalid)
	}
	in.OrphanAge = time.Hour // a package without a record is left over from a crash, or is about to get a record
	if in.DryRun {
		in.Found = func(b store.BlobInfo, by []store.Ref) {
			names := 0
			for _, ref := range by {
				if v, ok := cache.VersionOf(ref); ok {
					each(RemovablePackage{versionname.Of(v), b.Digest, b.Size})
					names++
				}
			}
			if names == 0 {
				each(RemovablePackage{Digest: b.Digest, Size: b.Size})
			}
		}
	} else if err := s.Configurations.Sweep(ctx); err != nil {
		return out, err
	}
	out.Collected, err = s.Store.Collect(ctx, in)
	if err == nil && in.MaxSize > 0 && out.Kept > in.MaxSize {
		why := "the rest is pinned (cache.pinned), quarantined or being read"
		if s.Offline {
			why = "offline, no package is evicted, because it cannot be downloaded again"
		}
		out.Remark = fmt.Sprintf("%s remain, and the limit is %s: %s; \"modproxy rm MODULE VERSION\" removes a package",
			modproxy.SizeText(out.Kept), modproxy.SizeText(in.MaxSize), why)
	}
	return out, err
}

// A RefreshRequest selects the modules whose versions are requested from registries.
type RefreshRequest struct {
	Modules []string `json:"modules,omitempty"`
	All     bool     `json:"all,omitempty"` // every module with a package that is or was cached and that the policy allows, too
}

// A RefreshResult is the result for the versions of one module.
type RefreshResult struct {
	Module string `json:"module"`
	cache.Refreshed
	Error string `json:"error,omitempty"` // why the versions were not refreshed
}

func (s *Server) refresh(ctx context.Context, in RefreshRequest, each func(RefreshResult)) (done none, err error) {
	if s.Upstreams == nil {
		return done, fmt.Errorf("%w: modproxy is offline and sends no requests to registries", modproxy.ErrUnavailable)
	}
	var modules []modproxy.Address
	for _, address := range in.Modules {
		m, err := hostname.ParseAddress(address, "")
		if err != nil {
			return done, err
		}
		modules = append(modules, m)
	}
	if in.All {
		for p := range s.Cache.List(ctx, modproxy.Address{}) { // a record that cannot be read names no module
			if p.Address != (modproxy.Address{}) && s.Upstreams.HasUpstream(p.Address.Host) && s.mayRefresh(ctx, p.Address) == nil {
				modules = append(modules, p.Address)
			}
		}
		modules = slices.Compact(modules) // the versions of a module are adjacent
		modules = slices.DeleteFunc(modules, func(m modproxy.Address) bool {
			return errors.Is(s.Gate.Check(ctx, m.At("")), modproxy.ErrDenied)
		})
	}
	for _, m := range modules {
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
		out, err := RefreshResult{Module: m.String()}, s.mayRefresh(ctx, m)
		switch {
		case err != nil:
			err = fmt.Errorf("%s: %w", m, err)
		case !s.Upstreams.HasUpstream(m.Host):
			err = fmt.Errorf("%s: %s is not among upstreams", m, m.Host)
		default:
			if err = s.Gate.Check(ctx, m.At("")); err == nil {
				out.Refreshed, err = s.Cache.Refresh(ctx, m)
			}
		}
		if err != nil {
			out.Error = err.Error()
		}
		each(out)
	}
	return done, nil
}

// mayRefresh returns the reason why the caller may not refresh the versions of m, or nil.
func (s *Server) mayRefresh(ctx context.Context, m modproxy.Address) error {
	if s.Operators == nil {
		return nil
	}
	return s.Operators.MayRefresh(ctx, m)
}
