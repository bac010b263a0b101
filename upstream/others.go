package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/protocol"
	"github.com/modproxy/modproxy/upstream/ask"
)

// others means the services of a host beside those of a registry.
const others service = "others"

const (
	othersWait  = time.Second // the wait for the discovery document of a host without an earlier one
	maxOther    = 1 << 20     // bytes of a document that Document returns
	maxServices = 64          // services of one host; the rest, in order of names, is omitted
	maxOtherAt  = 256         // bytes of the URL or path of a service; longer ones are omitted
)

// OtherServices returns the services that a host offers beside those of a registry, by name. The value is a URL for a service
// on another host, and a path, which [Client.Document] accepts, for a service on the host itself. The first call for a
// host waits up to a second. Later calls return the known services at once, and start a new discovery when they are
// old. The caller must not change the map.
func (c *Client) OtherServices(ctx context.Context, host string) map[string]string {
	now := time.Now()
	known, asked := c.found.Get(host)
	old := now.Sub(known.at) >= discoveryLife && now.Sub(known.tried) >= discoveryPause
	if old {
		call, err := c.look(ctx, host)
		if !asked && err == nil {
			select {
			case <-call.Done():
				known, _ = call.Result()
			case <-time.After(othersWait):
			case <-ctx.Done():
			}
		}
	}
	if known.services == nil || now.Sub(known.at) >= discoveryStale {
		return nil
	}
	return known.others
}

// needToken lists the prefixes of services that need the client's token for the host, which modproxy never passes on.
// login.v1 yields the token; cloud.go, backend.go and login.go of both clients send it to the others.
var needToken = []string{"login.", "logout.", "tfe.", "state.", "cloudplugin.", "stacksplugin."}

// serviceName matches the names of services
// (https://developer.hashicorp.com/terraform/internals/remote-service-discovery).
var serviceName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}\.v[0-9]{1,4}(\.[0-9]{1,4}){0,2}$`)

// othersOf returns the result of OtherServices for a discovery document of host. It omits services that lead to paths of
// registry protocols, because policy rules apply to those paths.
func (d discovered) othersOf(host string, set Host) map[string]string {
	taken := protocol.BasePaths()
	for _, s := range []service{modulesV1, providersV1} {
		if u, err := d.url(s); err == nil {
			taken = append(taken, u.Path)
		}
	}
	for _, s := range []string{set.Modules, set.Providers} {
		if u, err := url.Parse(s); err == nil && s != "" {
			taken = append(taken, u.Path)
		}
	}
	own, all := egress.Origin(&url.URL{Scheme: "https", Host: host}), map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(d.services)) {
		var value string
		if name == string(modulesV1) || name == string(providersV1) || !serviceName.MatchString(name) ||
			json.Unmarshal(d.services[name], &value) != nil || value == "" {
			continue
		}
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		u, err := url.Parse(value)
		if err != nil {
			continue
		}
		u = d.final.ResolveReference(u)
		switch {
		case u.Scheme != "https" || u.Host == "" || u.User != nil || u.Opaque != "":
		case egress.Origin(u) == own:
			if u.RawQuery == "" && !overlaps(u.EscapedPath(), taken) && !slices.ContainsFunc(needToken, begins) {
				all[name] = u.EscapedPath()
			}
		case !strings.EqualFold(u.Hostname(), (&url.URL{Host: host}).Hostname()): // clients cannot use its other ports here
			all[name] = u.String()
		}
		if len(all[name]) > maxOtherAt {
			delete(all, name)
		}
		if len(all) == maxServices {
			break
		}
	}
	return all
}

// overlaps reports whether path contains one of paths or is contained in one, ignoring case.
func overlaps(path string, paths []string) bool {
	fold := func(s string) string { return strings.ToLower(strings.TrimSuffix(s, "/")) + "/" }
	path = fold(path)
	return slices.ContainsFunc(paths, func(other string) bool {
		return strings.HasPrefix(path, fold(other)) || strings.HasPrefix(fold(other), path)
	})
}

// document is the result of Document.
type document struct {
	mediaType string
	content   []byte
}

// Document returns the complete content at an escaped path of a host, which may have a query, and its media type: JSON
// or plain text. Document does not check the path: the caller must request only paths below those that OtherServices returns, or
// other paths that have no module or provider. The request has no credentials. If the host is slower than a client waits, the
// error is a [modproxy.RetryLater].
func (c *Client) Document(ctx context.Context, host, path string) (mediaType string, content []byte, err error) {
	timed, cancel := context.WithTimeout(ctx, ask.Within)
	defer cancel()
	d, err := c.document(timed, host, path)
	switch {
	case err != nil && timed.Err() != nil && ctx.Err() == nil:
		return "", nil, &modproxy.RetryLater{
			After: time.Now().Add(time.Second), Err: fmt.Errorf("%s did not give the document within %v", host, ask.Within),
		}
	case err != nil:
		return "", nil, err
	}
	return d.mediaType, d.content, nil
}

func (c *Client) document(ctx context.Context, host, path string) (d document, err error) {
	s := serviceOf{host, others}
	l := c.limitsOf(s)
	leave, err := l.sideRequest(ctx)
	if err != nil {
		return d, err
	}
	defer leave()
	return ask.Do(ctx, l.Limiter, "", func(ctx context.Context) (d document, err error) {
		res, err := c.cfg.Egress.Get(ctx, egress.Request{
			URL: "https://" + host + path, Header: http.Header{"Accept": {"application/json, text/plain"}},
			Redirects: 3, Attempts: 2, MaxBytes: maxOther,
		})
		if err != nil {
			return d, fetch.Outgoing(err)
		}
		defer res.Body.Close()
		ask.Begin(ctx)
		if res.StatusCode != http.StatusOK {
			return d, fetch.Refusal(res, egress.Redact(res.Request.URL), "; modproxy passes no token on")
		}
		if d.mediaType, _, err = mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || !isDocument(d.mediaType) {
			return d, fmt.Errorf("%w: %s answered neither JSON nor plain text", modproxy.ErrInvalid, egress.Redact(res.Request.URL))
		}
		content, leave, err := l.receive(ctx, res.Body)
		defer leave()
		d.content = content
		return d, fetch.Outgoing(err)
	})
}

func isDocument(mediaType string) bool {
	return mediaType == "application/json" || mediaType == "text/plain" ||
		strings.HasPrefix(mediaType, "application/") && strings.HasSuffix(mediaType, "+json")
}
