package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

const (
	providersPath = "v1/providers/"
	// How long an upstream may take to answer about a provider: clients give up
	// after ten seconds.
	providerPatience = 8 * time.Second
)

// Providers is what host's provider registry answers at path, below its providers.v1
// base URL. Its errors are those of a [modproxy.Registry].
type Providers func(ctx context.Context, host, path string) (document []byte, err error)

// isProviders reports whether path is one of the providers.v1 protocol.
func isProviders(path string) bool { return strings.Contains(path, "/"+providersPath) }

// provider hands on what an upstream answers about a provider. Nothing of it is
// kept. The client fetches the package itself from where the answer says, and shows
// nobody a credential for that.
func (h *Handler) provider(w http.ResponseWriter, r *http.Request, e *Event) error {
	e.Kind = "provider"
	host, path, bad := h.cfg.Upstreams.parseProvider(r.Host, r.URL.EscapedPath())
	r, unknown := h.identify(r, e)
	client := clientOf(r.Context(), e.Client)
	if err := h.bounds.enter(r.Context(), client, patience); err != nil {
		return err
	}
	defer h.bounds.leave(client)
	r = r.WithContext(modproxy.WithAsker(r.Context(), client))
	switch {
	case unknown != nil:
		return unknown
	case bad != nil:
		return bad
	case !h.mayAskAbout(r.Context(), host, path):
		return fmt.Errorf("provider %s/%s: %w", host, path, modproxy.ErrNotFound)
	case h.cfg.Providers == nil:
		return fmt.Errorf("provider %s/%s: %w", host, path, errProvidersOffline)
	}
	ctx, cancel := context.WithTimeout(r.Context(), providerPatience)
	defer cancel()
	document, err := h.cfg.Providers(ctx, host, path)
	if err != nil {
		return err
	}
	end, err := h.sending.begin(&modproxy.Versions{Document: document})
	if err != nil {
		return err
	}
	defer end()
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(document))}
	if h.cfg.Auth != nil {
		header["Cache-Control"] = cachePrivate
	}
	w.Write(document) // a client that is gone is no concern
	return nil
}

// mayAskAbout reports whether the client may be told about the provider at path. A
// registry that is shown a token of ours may answer with what is private to a
// namespace; of others any scope will do.
func (h *Handler) mayAskAbout(ctx context.Context, host, path string) bool {
	if h.cfg.Auth == nil {
		return true
	}
	namespace := ""
	if h.cfg.Upstreams.Private[host] {
		namespace, _, _ = strings.Cut(path, "/")
	}
	return auth.PrincipalOf(ctx).MayReadOf(host, namespace)
}

// parseProvider takes a request of the providers.v1 protocol, sent to requestHost,
// apart; path is escaped, and what is below v1/providers/ comes back escaped:
//
//	[/{host}]/v1/providers/{namespace}/{type}/versions
//	[/{host}]/v1/providers/{namespace}/{type}/{version}/download/{os}/{arch}
//
// A client that looks for a provider without a namespace asks for the namespace "-".
// Without a host in the path the request's Host must be an upstream's: a provider
// whose address has our own hostname is another one.
func (u *Upstreams) parseProvider(requestHost, path string) (host, below string, err error) {
	before, rest, _ := strings.Cut(path, "/"+providersPath)
	if before == "" {
		own, ok := u.byName(requestHost)
		if !ok {
			return "", "", notFound("want /{registry host}/v1/providers/…: no provider has this proxy's own hostname")
		}
		host = own
	} else if host, err = u.named(strings.TrimPrefix(before, "/")); err != nil {
		return "", "", err
	}
	parts := strings.Split(rest, "/")
	isVersions := len(parts) == 3 && parts[2] == "versions"
	isDownload := len(parts) == 6 && parts[3] == "download"
	if !isVersions && !isDownload {
		return "", "", notFound("want {namespace}/{type}/versions or {namespace}/{type}/{version}/download/{os}/{arch}")
	}
	for i, part := range parts {
		name, err := url.PathUnescape(part)
		if err != nil || !isProviderName(name) && !(i == 0 && isVersions && name == "-") {
			return "", "", invalid(fmt.Errorf("%w: %.80q in the path of a provider", errProviderName, name))
		}
		parts[i] = url.PathEscape(name)
	}
	return host, strings.Join(parts, "/"), nil
}

var (
	errProviderName     = errors.New("not a name")
	errProvidersOffline = &modproxy.Lasting{Err: errors.New("providers are not kept, and modproxy is offline")}
)

// isProviderName reports whether s can be a segment of a provider's path: a
// namespace or type, which may have letters of any script, a version, a platform.
func isProviderName(s string) bool {
	for i, c := range s {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && (i == 0 || !strings.ContainsRune("-_.+", c)) {
			return false
		}
	}
	return 0 < len(s) && len(s) <= 255
}
