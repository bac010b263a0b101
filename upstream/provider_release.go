package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/release"
)

// release downloads the checksums of v and their signature from the URLs in d, verifies them, and packs the release.
func (c *Client) release(ctx context.Context, v modproxy.Ref, d *release.Download) (*modproxy.Package, error) {
	r, _, err := c.verified(ctx, v.Address, d)
	if err != nil {
		return nil, err
	}
	sums, err := release.ParseSums(r.Sums)
	if sums != nil {
		r.Archives, err = c.archives(ctx, v, d, sums)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", egress.Redact(d.SumsURL), err)
	}
	return c.pack(v, d, r, sums)
}

// pack packs a release of v. It adds the packages that d describes; the rest of r is complete.
func (c *Client) pack(v modproxy.Ref, d *release.Download, r *release.Release, sums *release.Sums) (*modproxy.Package, error) {
	if others := c.cfg.Providers.OtherNames; others == nil || !others.Covers(v.Address) {
		if err := r.CheckNames(v); err != nil {
			return nil, fmt.Errorf("%s: %w", egress.Redact(d.SumsURL), err)
		}
	}
	facts, err := r.Facts()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", egress.Redact(d.SignatureURL), err)
	}
	if n := len(sums.Files()) - len(r.Archives); n > maxOthers {
		return nil, fmt.Errorf("%s: %w: SHA256SUMS: it lists %d other files, more than the %d that are allowed",
			egress.Redact(d.SumsURL), modproxy.ErrInvalid, n, maxOthers)
	}
	r.Packages = d.PackagesOf(r.Archives)
	p, err := r.Pack(c.cfg.Providers.Scratch)
	if err != nil {
		return nil, err
	}
	p.Source.URL, p.Facts = egress.Redact(d.SumsURL), facts
	return p, nil
}

// verified returns the release of m that d describes, without its archives, and its signer, if it is signed.
func (c *Client) verified(ctx context.Context, m modproxy.Address, d *release.Download) (*release.Release, release.Signer, error) {
	r := &release.Release{Protocols: d.Protocols, Keys: d.Keys}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		r.Sums, err = c.readFile(ctx, m.Host, d.SumsURL, release.MaxSums)
		return err
	})
	g.Go(func() (err error) {
		r.Signature, err = c.readFile(ctx, m.Host, d.SignatureURL, release.MaxSignature)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, release.Signer{}, err
	}
	unsigned := c.cfg.Providers.Unsigned
	if len(d.Keys) == 0 && len(d.Dropped) == 0 && unsigned != nil && unsigned.Covers(m) {
		r.Unsigned = true
		return r, release.Signer{}, nil
	}
	signer, err := release.Verify(r.Sums, r.Signature, d.Keys, time.Now())
	bad, ok := errors.AsType[*release.SignatureError](err)
	switch {
	case ok && bad.Reason == release.Future:
		err = fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err) // the clock will pass that time
	case ok && bad.Reason == release.NoKeys && len(d.Dropped) == 0:
		err = release.Unallowed()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", egress.Redact(d.SignatureURL), err)
	}
	return r, signer, err
}

// archives returns the packages of v for all platforms, from sums. Names of packages differ from the one in d only in
// the platform. If sums has zip files with other names, archives asks the registry about the platforms that it lists in
// addition.
func (c *Client) archives(ctx context.Context, v modproxy.Ref, d *release.Download, sums *release.Sums) (archives []release.Archive, err error) {
	if err := sums.Check(d.Archive.File, d.Archive.Digest); err != nil {
		return nil, err
	}
	archives = append(archives, d.Archive)
	prefix, regular := strings.CutSuffix(d.Archive.File, d.Archive.Platform.String()+".zip")
	odd := !regular
	for file, digest := range sums.Files() {
		name, isZip := strings.CutSuffix(file, ".zip")
		name, isOfIt := strings.CutPrefix(name, prefix)
		p, err := modproxy.ParsePlatform(name)
		switch {
		case file == d.Archive.File:
		case regular && isZip && isOfIt && err == nil:
			archives = append(archives, release.Archive{Platform: p, File: file, Digest: digest})
		default:
			odd = odd || isZip
		}
	}
	if odd {
		if archives, err = c.addOdd(ctx, v, sums, archives); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(archives, byPlatform)
	return archives, nil
}

func byPlatform(a, b release.Archive) int {
	return cmp.Or(strings.Compare(a.OS, b.OS), strings.Compare(a.Arch, b.Arch))
}

const (
	maxOthers = 256 // files of a release that are not packages; each one is in the record

	maxOdd  = 16 // platforms that the registry is asked about one by one, because the file names do not show them
	oddOnce = 4  // such requests at a time
)

// addOdd adds the archives for other platforms that v's registry lists, if they are in sums.
func (c *Client) addOdd(ctx context.Context, v modproxy.Ref, sums *release.Sums, archives []release.Archive) ([]release.Archive, error) {
	platforms, err := c.platforms(ctx, v)
	if err != nil {
		return nil, err
	}
	platforms = slices.DeleteFunc(platforms, func(p modproxy.Platform) bool {
		return slices.ContainsFunc(archives, func(a release.Archive) bool { return a.Platform == p })
	})
	others := make([]*release.Download, min(len(platforms), maxOdd))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(oddOnce)
	for i := range others {
		g.Go(func() (err error) {
			others[i], err = c.askDownload(ctx, v, platforms[i])
			if err != nil && !errors.Is(err, modproxy.ErrUnavailable) {
				return nil // the other platforms are available
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, d := range others {
		if d != nil && sums.Check(d.Archive.File, d.Archive.Digest) == nil {
			archives = append(archives, d.Archive)
		}
	}
	return archives, nil
}

// readFile returns the content at u, of at most most bytes.
func (c *Client) readFile(ctx context.Context, host string, u *url.URL, most int64) (content []byte, err error) {
	err = fetch.Retry(ctx, func() (bool, error) {
		var res *http.Response
		res, again, err := c.getFile(ctx, host, u, egress.Request{MaxBytes: most})
		if err != nil {
			return again, err
		}
		defer res.Body.Close()
		content, err = io.ReadAll(res.Body)
		return egress.MayPass(err), fetch.Outgoing(err)
	})
	return content, err
}
