package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/release"
)

// PackageAt downloads the recorded package. For a module it uses the recorded commit at the location that the registry
// gives, or else the recorded source; for a provider, the recorded source. The caller must compare the package with
// rec: PackageAt returns other content without an error. Errors are those of Package; [modproxy.ErrNotFound] if the recorded
// commit or file no longer exists.
func (c *Client) PackageAt(ctx context.Context, rec modproxy.Record) (*modproxy.Package, error) {
	p, err := c.recorded(ctx, rec)
	return p, modproxy.Wrap("package", rec.Ref, err)
}

func (c *Client) recorded(ctx context.Context, rec modproxy.Record) (p *modproxy.Package, err error) {
	switch rec.Kind() {
	case modproxy.Provider:
		return c.recordedProvider(ctx, rec)
	case modproxy.Module:
	}
	if rec.Source.Commit != "" { // the location may need a user, or lead to the repository through a page
		p, err = c.fetch(ctx, rec.Ref, rec.Source.Commit)
		switch {
		case err == nil && p.Source.Is(rec.Source):
			return p, nil
		case err == nil:
			p.Close()
		case !errors.Is(err, modproxy.ErrNotFound) || c.isAt(rec):
			return nil, err
		}
	}
	s, err := c.source(rec)
	switch {
	case err != nil:
	case s.Commit == "" && c.isAt(rec): // the caller has compared it
		err = fmt.Errorf("%w: it moved away from where the registry says that it is", modproxy.ErrNotFound)
	default:
		err = c.cfg.Fetch.Check(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	if p, err = c.cfg.Fetch.Package(ctx, s); err != nil || s.Commit != "" || rec.Is(p.Sum, p.Subdir) {
		return p, err
	}
	// All files of an archive may be in one directory that the registry's location selects as the package.
	s.Subdir = path.Join("*", s.Subdir)
	if inner, err := c.cfg.Fetch.Package(ctx, s); err == nil {
		p.Close()
		return inner, nil
	}
	return p, nil
}

// isAt reports whether the registry's location of the version is the recorded source.
func (c *Client) isAt(rec modproxy.Record) bool {
	s, known := c.located.Get(rec.Ref)
	u, err := url.Parse(s.URL)
	return known && err == nil && egress.Redact(u) == rec.Source.URL
}

// source returns the recorded source of a module version. The record lacks the query of the location, so the type of an
// archive is detected from its first bytes.
func (c *Client) source(rec modproxy.Record) (s fetch.Source, err error) {
	u, err := url.Parse(rec.Source.URL)
	if err != nil || u.Host == "" {
		return s, fmt.Errorf("%w: no source is recorded", modproxy.ErrNotFound)
	}
	s = fetch.Source{Location: rec.Location(), Module: rec.Address, Commit: rec.Source.Commit}
	if s.Commit == "" {
		s.Direct, s.Own = true, c.credentials(rec.Host)
	}
	return s, nil
}

// recordedProvider downloads a release, or the zip archive of a release, from its recorded source.
func (c *Client) recordedProvider(ctx context.Context, rec modproxy.Record) (p *modproxy.Package, err error) {
	from, err := url.Parse(rec.Source.URL)
	if err != nil || from.Host == "" {
		return nil, fmt.Errorf("%w: no source is recorded", modproxy.ErrNotFound)
	}
	if err := c.cfg.Egress.Check(ctx, from); err != nil {
		return nil, fetch.Outgoing(err)
	}
	if platform, isZip := rec.Platform(); isZip {
		var digest modproxy.Digest
		if digest, err = rec.Sum.Hash(); err == nil {
			archive := release.Archive{Platform: platform, File: path.Base(from.Path), Digest: digest}
			p, err = c.zip(ctx, rec.Base(), &release.Download{Archive: archive, ZipURL: from})
		}
	} else {
		p, err = c.recordedRelease(ctx, rec, from)
	}
	answered, ok := errors.AsType[*fetch.Answered](err)
	if ok && (answered.Code == http.StatusNotFound || answered.Code == http.StatusGone) { // the recorded source is the only one
		err = fmt.Errorf("%w: %s answered %s", modproxy.ErrNotFound, answered.Where, answered.Status)
	}
	return p, err
}

// recordedRelease downloads the checksums of a release, and the signature beside them. The keys come from the registry,
// from a version that it still lists.
func (c *Client) recordedRelease(ctx context.Context, rec modproxy.Record, from *url.URL) (*modproxy.Package, error) {
	d, err := c.keysOf(ctx, rec)
	if err != nil {
		return nil, err
	}
	d.SumsURL, d.Protocols = from, nil
	var r *release.Release
	for _, name := range signatures(rec.Keys) {
		beside := *from
		beside.Path, beside.RawPath = from.Path+name, ""
		d.SignatureURL = &beside
		if r, _, err = c.verified(ctx, rec.Address, d); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	sums, err := release.ParseSums(r.Sums)
	if sums == nil {
		return nil, err
	}
	zips, err := rec.Zips.All()
	if err != nil {
		return nil, err
	}
	for platform, digest := range zips {
		for file, other := range sums.Files() {
			archive := release.Archive{Platform: platform, File: file, Digest: digest}
			last := len(r.Archives) - 1
			switch again := last >= 0 && r.Archives[last].Platform == platform; {
			case other != digest || !strings.HasSuffix(file, ".zip"):
			case !again:
				r.Archives = append(r.Archives, archive)
			case release.IsNamed(file, rec.Ref, platform): // other files may have the same bytes
				r.Archives[last] = archive
			}
		}
	}
	slices.SortFunc(r.Archives, byPlatform)
	return c.pack(rec.Ref, d, r, sums)
}

// signatures returns the possible suffixes of the signature's file name, after the name of the signed file: that of
// most publishers, and those of HashiCorp, which contain the end of the key's fingerprint.
func signatures(keys modproxy.Keys) []string {
	list := []string{".sig"}
	for _, fingerprint := range keys.All() {
		list = append(list, "."+fingerprint[len(fingerprint)-8:]+".sig")
	}
	return list
}

const maxSiblings = 3 // versions whose keys are requested

// keysOf returns the keys of another version that the registry lists. One of the recorded keys may have signed that
// version.
func (c *Client) keysOf(ctx context.Context, rec modproxy.Record) (*release.Download, error) {
	versions, err := c.askVersions(ctx, rec.Address)
	if err != nil {
		return nil, err
	}
	listed := slices.SortedFunc(slices.Values(versions.List), func(a, b modproxy.Listed) int { return b.Version.Compare(a.Version) })
	err = fmt.Errorf("%w: its registry lists no version whose keys could verify it", modproxy.ErrNotFound)
	for _, sibling := range listed[:min(len(listed), maxSiblings)] {
		d, errAsked := c.askAnyDownload(ctx, rec.Address.At(sibling.Version.String()))
		if errAsked == nil {
			return d, nil
		}
		err = errAsked
	}
	return nil, err
}
