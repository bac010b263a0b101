package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/lockfile"
)

// CheckProviders compares providers with a ledger: every hash must be in the ledger's records of the version. Every error is
// about one version: [modproxy.ErrChanged], [modproxy.ErrDenied], or an error of the ledger.
func CheckProviders(ctx context.Context, all []lockfile.Provider, ledger Ledger) (errs []error) {
	for _, p := range all {
		k, err := know(ctx, p, nil, ledger)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		wrong, unsure := k.compare(p)
		if errs = append(append(errs, wrong...), unsure...); len(p.Hashes) == 0 {
			errs = append(errs, different(p.Ref, "it is locked without hashes, so clients accept any package for it"))
		}
	}
	return errs
}

// MissingHashes returns the hashes that p does not have: zh of all files in the checksums of the release, as clients lock
// them, and h1 of the archives for platforms. It returns errors, as [CheckProviders] does, if the ledger does not have these
// hashes, or does not have the hashes of p: the new hashes could then be of another release than those of p.
func MissingHashes(ctx context.Context, p lockfile.Provider, platforms []modproxy.Platform, ledger Ledger) (missing []string, errs []error) {
	k, err := know(ctx, p, platforms, ledger)
	if err != nil {
		return nil, []error{err}
	}
	errs, unsure := k.compare(p)
	if len(unsure) > 0 && len(unsure) == len(p.Hashes) {
		errs = append(errs, unsure...)
	}
	missing = slices.Collect(maps.Keys(k.zh))
	var absent []modproxy.Platform
	for _, platform := range platforms {
		switch h1 := k.h1[platform]; {
		case len(h1) > 0:
			missing = append(missing, string(h1[0]))
		case slices.Contains(k.absent, platform):
			absent = append(absent, platform)
		default:
			errs = append(errs, different(p.Ref, "it has no archive for %s", platform))
		}
	}
	if len(absent) > 0 {
		errs = append(errs, lacks(p, "", absent))
	}
	missing = slices.DeleteFunc(missing, func(hash string) bool { return slices.Contains(p.Hashes, hash) })
	slices.Sort(missing)
	return slices.Compact(missing), errs
}

// known has the hashes of a provider's version in a ledger.
type known struct {
	zh     map[string]bool // in the form of lock files, of all released files
	h1     map[modproxy.Platform][]modproxy.Sum
	absent []modproxy.Platform // platforms without h1
}

// know looks up p in a ledger. It looks up platforms, and others only until it knows every hash of p.
func know(ctx context.Context, p lockfile.Provider, platforms []modproxy.Platform, ledger Ledger) (*known, error) {
	v := p.Ref
	rec, err := ledger.Lookup(ctx, v)
	if err != nil {
		return nil, unknown(v, "locked", err)
	}
	zips, errZips := rec.Zips.All()
	others, errOthers := rec.Others.All()
	if err := cmp.Or(errZips, errOthers); err != nil {
		return nil, fmt.Errorf("%s: ledger: %w", v, err)
	}
	k := &known{zh: map[string]bool{}, h1: map[modproxy.Platform][]modproxy.Sum{}}
	for _, d := range slices.AppendSeq(others, maps.Values(zips)) {
		k.zh["zh:"+d.String()] = true
	}
	rest := slices.SortedFunc(maps.Keys(zips), func(a, b modproxy.Platform) int { return strings.Compare(a.String(), b.String()) })
	rest = slices.DeleteFunc(rest, func(a modproxy.Platform) bool { return slices.Contains(platforms, a) })
	for i, platform := range slices.Concat(platforms, rest) {
		if i >= len(platforms) && !slices.ContainsFunc(p.Hashes, k.wonders) {
			break
		}
		digest, ok := zips[platform]
		if !ok {
			continue
		}
		zip, err := ledger.Lookup(ctx, v.ForPlatform(platform))
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, unknown(v, "locked", err)
		case err == nil && zip.Sum == modproxy.NewSum(digest) && zip.Hashes != "":
			k.h1[platform] = zip.Hashes.All()
		default:
			k.absent = append(k.absent, platform)
		}
	}
	return k, nil
}

// wonders reports whether hash may belong to a platform that was not looked up yet.
func (k *known) wonders(hash string) bool { return strings.HasPrefix(hash, "h1:") && !k.has(hash) }

func (k *known) has(hash string) bool {
	for _, sums := range k.h1 {
		if slices.Contains(sums, modproxy.Sum(hash)) {
			return true
		}
	}
	return k.zh[hash]
}

// compare returns an error for each wrong hash of p, and for each hash that may belong to a platform without a record.
func (k *known) compare(p lockfile.Provider) (wrong, unsure []error) {
	for _, hash := range p.Hashes {
		switch {
		case k.has(hash):
		case len(k.absent) > 0 && k.wonders(hash):
			unsure = append(unsure, lacks(p, hash+" is locked; ", k.absent))
		default:
			wrong = append(wrong, different(p.Ref, "%s is locked, but the ledger has no such hash", hash))
		}
	}
	return wrong, unsure
}

// NoHash means that a ledger has no h1 of a provider's version for some platforms, because their packages were not
// downloaded. The h1 in the lock file cannot be confirmed then, and may be wrong: so NoHash is a [modproxy.ErrChanged]. Callers that
// treat a missing hash in another way use [errors.As].
type NoHash struct {
	error
	modproxy.Ref
	Platforms []modproxy.Platform
}

func (e *NoHash) Unwrap() error { return e.error }

// lacks returns the error for platforms of p without h1 in a ledger.
func lacks(p lockfile.Provider, before string, platforms []modproxy.Platform) error {
	var names []string
	for _, platform := range platforms {
		names = append(names, platform.String())
	}
	err := different(p.Ref, "%sthe ledger has no h1 for %s", before, strings.Join(names, ", "))
	return &NoHash{err, p.Ref, slices.Clone(platforms)}
}
