// Package web brings what http and https locations name: an archive, or what a page says is elsewhere.
//
// Invariant: a location is read as go-getter reads it, so that what is brought is what a client would install. An
// archive is received whole before anything is read from it.
package web

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/archive"
	"github.com/modproxy/modproxy/pack"
)

// Getter is a [fetch.Getter] for http and https locations.
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

// Commit implements [fetch.Getter]: there are no commits.
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
		got.Pinned, err = v.fetchArchive(ctx, tree)
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

// fetchArchive adds the files of the archive to tree. It reports whether the location has its checksum.
func (v *visit) fetchArchive(ctx context.Context, tree *pack.Builder) (pinned bool, err error) {
	file, size, err := v.download(ctx)
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

// maxRedirects is no bound beside the budget of a package.
const maxRedirects = 10

// get sends one request for something. Any other answer is an error; again reports whether another try may do
// better.
func (v *visit) get(ctx context.Context, r egress.Request) (res *http.Response, again bool, err error) {
	r.Credentials, r.Redirects, r.Budget = v.shown(), maxRedirects, v.source.Budget
	if res, err = v.Egress.Get(ctx, r); err != nil {
		return nil, v.mayPass(err), fetch.Outgoing(err)
	}
	if res.StatusCode == http.StatusOK || res.StatusCode/100 == 2 && !r.Archive {
		return res, false, nil
	}
	res.Body.Close()
	host := res.Request.URL.Host
	return nil, fetch.MayPass(res.StatusCode) && !r.Budget.Spent(), fetch.Refusal(res, host, "set a credential for "+host)
}

// mayPass reports whether another try may do better than err, and may be made.
func (v *visit) mayPass(err error) bool { return egress.MayPass(err) && !v.source.Budget.Spent() }

// shown returns what servers are shown: what the location itself carries, the registry's own token if the registry
// asked for that, and what is configured; each to its origin only.
func (v *visit) shown() []egress.Credential {
	shown := slices.Clone(v.source.Own)
	if v.user != nil {
		shown = slices.Insert(shown, 0, *v.user)
	}
	for _, c := range v.Credentials.For(v.source.Module) {
		if !c.Password.IsZero() {
			shown = append(shown, egress.Credential{Origin: "https://" + c.Host, Authorization: basic(c.Username, c.Password.Reveal())})
		}
	}
	return shown
}

// basic returns the value of an Authorization header (RFC 7617).
func basic(username, password string) egress.Secret {
	return egress.NewSecret("Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password)))
}
