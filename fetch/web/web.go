// Package web downloads archives from http and https locations.
//
// A [Getter] is a [fetch.Getter] for a [fetch.Table]:
//
//	g := &web.Getter{Egress: egress, Credentials: credentials, Scratch: dir, MaxReceived: 1 << 30}
//	table.Getters["https"] = g
//
// If a location is a page that names another location, as go-getter allows, the result has that location.
//
// Invariants: a location has the same meaning as for go-getter (get_http.go, client.go), so that the files are those
// that a client would install. An archive is received completely before it is read.
package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/archive"
	"github.com/modproxy/modproxy/pack"
)

// Getter is a [fetch.Getter] for http and https locations. It is safe for concurrent use.
type Getter struct {
	Egress      *egress.Client
	Credentials fetch.Credentials
	Scratch     string // the directory for archives while they are received
	MaxReceived int64  // bytes of an archive
}

var _ fetch.Getter = (*Getter)(nil)

// Check implements [fetch.Getter].
func (g *Getter) Check(ctx context.Context, s fetch.Source) error {
	a, err := parse(s.URL, s.Direct)
	if err == nil {
		err = g.Egress.Check(ctx, a.url)
	}
	return fetch.Outgoing(err)
}

// Commit implements [fetch.Getter]. Archives have no commits.
func (g *Getter) Commit(context.Context, fetch.Source) (string, error) { return "", nil }

// Fetch implements [fetch.Getter].
func (g *Getter) Fetch(ctx context.Context, s fetch.Source, tree *pack.Builder) (got fetch.Result, err error) {
	a, err := parse(s.URL, s.Direct)
	if err != nil {
		return got, fmt.Errorf("location: %w", err)
	}
	got.From.URL = egress.Redact(a.url)
	v := &visit{Getter: g, source: s, address: a}
	switch {
	case !s.Direct && a.format == "":
		got.Next, err = v.askPage(ctx)
	case s.Commit != "":
		err = fmt.Errorf("%w: it is an archive, which has no commits", modproxy.ErrInvalid)
	default:
		got.Immutable, err = v.fetchArchive(ctx, tree)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", got.From.URL, err)
	}
	return got, err
}

// visit is the fetch from one location.
type visit struct {
	*Getter
	source fetch.Source
	address
}

// fetchArchive adds the files of the archive to tree. immutable reports whether the location has the archive's checksum.
func (v *visit) fetchArchive(ctx context.Context, tree *pack.Builder) (immutable bool, err error) {
	download := fetch.Download{Scratch: v.Scratch, Most: v.MaxReceived, Budget: v.source.Budget,
		Get: func(ctx context.Context, most int64) (*http.Response, bool, error) {
			return v.get(ctx, egress.Request{URL: v.url.String(), Attempts: 2, MaxBytes: most, Archive: true})
		}}
	file, size, err := download.Receive(ctx) // a checksum covers all of it, and a zip archive is read from its end
	if err != nil {
		return false, err
	}
	defer file.Close()
	if v.checksum != nil {
		err = v.checksum.Verify(ctx, file, size)
	}
	if err == nil && v.source.Direct {
		v.format, err = archive.Sniff(file)
	}
	if err != nil {
		return false, err
	}
	return v.checksum != nil, archive.Unpack(ctx, file, size, v.format, tree)
}

// maxRedirects exceeds the budget of a package, which is the actual bound.
const maxRedirects = 10

// get sends one request. An unexpected answer is an error. again reports whether a retry may succeed.
func (v *visit) get(ctx context.Context, r egress.Request) (res *http.Response, again bool, err error) {
	r.Credentials, r.Redirects, r.Budget = v.shown(), maxRedirects, v.source.Budget
	r.CheckRedirect = v.source.Mirrors.CheckRedirect
	if res, err = v.Egress.Get(ctx, r); err != nil {
		again, err = fetch.Failed(v.source.Budget, egress.MayPass(err), fetch.Outgoing(err))
		return nil, again, err
	}
	if res.StatusCode == http.StatusOK || res.StatusCode/100 == 2 && !r.Archive {
		return res, false, nil
	}
	res.Body.Close()
	host := res.Request.URL.Host
	again, err = fetch.Failed(v.source.Budget, fetch.MayPass(res.StatusCode), fetch.Refusal(res, host, " (operator: set credentials[] for "+host+")"))
	return nil, again, err
}

// shown returns the credentials for servers: those in the location, the registry's token if the registry asked for it,
// and the configured ones. Each is sent only to its origin.
func (v *visit) shown() []egress.Credential {
	shown := slices.Clone(v.source.Own)
	if v.user != nil {
		shown = slices.Insert(shown, 0, *v.user)
	}
	for _, c := range v.Credentials.For(v.source.Module) {
		if !c.Password.IsZero() {
			shown = append(shown, egress.Credential{Origin: "https://" + c.Host, Authorization: fetch.Basic(c.Username, c.Password.Reveal())})
		}
	}
	return shown
}
