package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/release"
)

// Providers has the settings for the packages of providers.
type Providers struct {
	Scratch     string      // the directory for downloads in progress
	MaxReceived int64       // bytes of a zip archive; zero means 1 GiB
	MaxUnpacked int64       // bytes of its content; zero means the default of [release.ZipLimits]
	Unsigned    fetch.Scope // providers whose releases need no signature if their registry lists no key; nil means none
	OtherNames  fetch.Scope // providers whose files need not have the names that package release checks ([release.IsNamed]); nil means none
}

// providerPath returns the path of a question about p, below the base URL of providers.v1.
func providerPath(p modproxy.Address, rest string) string {
	return p.Namespace + "/" + p.Name + "/" + rest
}

// providerPackage downloads v: a release, or the zip archive of a release.
func (c *Client) providerPackage(ctx context.Context, v modproxy.Ref) (p *modproxy.Package, err error) {
	platform, isZip := v.Platform()
	if !isZip && !v.IsListed() {
		return nil, fmt.Errorf("%w: modproxy has made it, and no registry has it", modproxy.ErrNotFound)
	}
	d, known := c.described.Get(v)
	switch {
	case known:
	case isZip: // the URLs in an old answer may have expired
		d, err = c.askDownload(ctx, v.Base(), platform)
	default:
		d, err = c.askAnyDownload(ctx, v)
	}
	if err != nil {
		return nil, err
	}
	if isZip {
		c.described.Drop(v)
		return c.zip(ctx, v.Base(), d)
	}
	if p, err = c.release(ctx, v, d); err == nil {
		c.described.Add(v.ForPlatform(d.Archive.Platform), d, locationLife, 0) // often requested next
	}
	return p, err
}

// common is a platform that nearly all releases support.
var common = modproxy.Platform{OS: "linux", Arch: "amd64"}

// askAnyDownload asks v's registry about its package for any one platform.
func (c *Client) askAnyDownload(ctx context.Context, v modproxy.Ref) (*release.Download, error) {
	d, err := c.askDownload(ctx, v, common)
	if !errors.Is(err, modproxy.ErrNotFound) {
		return d, err
	}
	platforms, errListed := c.platforms(ctx, v)
	if errListed != nil {
		return nil, errListed
	}
	for _, p := range platforms {
		if p != common {
			return c.askDownload(ctx, v, p)
		}
	}
	return d, err
}

// platforms returns the platforms that v's registry lists for v, without duplicates.
func (c *Client) platforms(ctx context.Context, v modproxy.Ref) ([]modproxy.Platform, error) {
	versions, err := c.askVersions(ctx, v.Address)
	if err != nil {
		return nil, err
	}
	listed, found := versions.Find(v.Version)
	if !found {
		return nil, fmt.Errorf("%w: its registry does not list it", modproxy.ErrNotFound)
	}
	return slices.Compact(slices.SortedFunc(slices.Values(listed.Release().Platforms), func(a, b modproxy.Platform) int {
		return strings.Compare(a.String(), b.String())
	})), nil
}

// askDownload asks v's registry about its package for a platform. It also checks that the zip archive can and may be
// downloaded, because clients show users little about failed downloads of archives.
func (c *Client) askDownload(ctx context.Context, v modproxy.Ref, p modproxy.Platform) (*release.Download, error) {
	read := func(res *http.Response, _ *url.URL, document []byte) (*release.Download, error) {
		d, err := release.ParseDownload(document, res.Request.URL, p)
		if err == nil {
			err = fetch.Outgoing(c.cfg.Egress.Check(ctx, d.ZipURL))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", egress.Redact(res.Request.URL), err)
		}
		return d, nil
	}
	path := providerPath(v.Address, url.PathEscape(v.Version)+"/download/"+p.OS+"/"+p.Arch)
	return question(ctx, c, serviceOf{v.Host, providersV1}, path, release.MaxDownload, read)
}

const fileRedirects = 10 // as the clients follow them

// getFile requests a file at u, on any server, for a provider of host. The answer has the status 200, or 206 if r
// requests a range. Only the registry's own origins receive the registry's credentials. again reports whether another
// try may succeed.
func (c *Client) getFile(ctx context.Context, host string, u *url.URL, r egress.Request) (res *http.Response, again bool, err error) {
	defer modproxy.MeterOf(ctx).Begin()()
	r.URL, r.Credentials, r.Redirects = u.String(), c.credentials(host), fileRedirects
	if res, err = c.cfg.Egress.Get(ctx, r); err != nil {
		return nil, egress.MayPass(err), fetch.Outgoing(err)
	}
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusPartialContent {
		return res, false, nil
	}
	res.Body.Close()
	where := egress.Redact(res.Request.URL)
	if res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone {
		// The registry lists this release, so the module is not missing.
		return nil, false, &modproxy.Permanent{Err: &fetch.Answered{Where: where, Status: res.Status, Code: res.StatusCode}}
	}
	advice := "; its publisher must let everybody read what the registry " + host + " names"
	return nil, fetch.MayPass(res.StatusCode), fetch.Refusal(res, where, advice)
}

func (p Providers) maxReceived() int64 { return cmp.Or(p.MaxReceived, 1<<30) }
