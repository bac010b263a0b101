package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

const (
	providersPath = "v1/providers/"
	// providerPatience is how long an upstream may take: clients give up after ten seconds.
	providerPatience = 8 * time.Second
)

// Providers answers questions about providers.
type Providers interface {
	// Provider returns the document at path, below the providers.v1 base URL of host. Errors: see [modproxy.Registry].
	Provider(ctx context.Context, host, path string) (document []byte, err error)
}

// serveProvider hands on what an upstream answers about a provider. Clients fetch it from there, and nothing is kept.
func (h *Handler) serveProvider(w *response, r *http.Request, e *Event) error {
	e.Kind = "provider"
	host, path, malformed := h.cfg.Upstreams.parseProvider(r.Host, r.URL.EscapedPath())
	r, refused := h.identify(r, e)
	r, leave, err := h.admit(r, e, patience)
	if err != nil {
		return err
	}
	defer leave()
	if err := cmp.Or(refused, malformed); err != nil {
		return err
	}
	document, err := h.askProvider(r.Context(), host, path)
	if err != nil {
		return err
	}
	release, err := h.documents.hold(document, 0)
	if err != nil {
		return err
	}
	defer release()
	h.writeDocument(w, document)
	return nil
}

func (h *Handler) askProvider(ctx context.Context, host, path string) ([]byte, error) {
	var err error
	switch {
	case !h.mayAskAbout(ctx, host, path):
		err = modproxy.ErrNotFound
	case h.cfg.Providers == nil:
		err = &modproxy.Lasting{Err: errors.New("providers are not kept, and modproxy is offline")}
	}
	if err != nil {
		return nil, fmt.Errorf("provider %s/%s: %w", host, path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, providerPatience)
	defer cancel()
	document, err := h.cfg.Providers.Provider(ctx, host, path)
	if errors.Is(err, modproxy.ErrDenied) { // of a 403 clients say that they need credentials, and not why
		err = &requestError{http.StatusConflict, err}
	}
	return document, err
}

// mayAskAbout reports whether the client may be told about the provider at path. A registry that gets a token of the
// proxy's may answer with what is private to a namespace; for others any scope will do.
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

// parseProvider reads an escaped path of the providers.v1 protocol, sent to requestHost. What is below v1/providers/ is
// returned escaped:
//
//	[/{host}]/v1/providers/{namespace}/{type}/versions
//	[/{host}]/v1/providers/{namespace}/{type}/{version}/download/{os}/{arch}
//
// A client that looks for a provider without a namespace asks for the namespace "-". Without a host in the path
// requestHost must be an upstream's: a provider whose address has the proxy's own hostname is another one.
func (u *Upstreams) parseProvider(requestHost, path string) (host, below string, err error) {
	before, rest, _ := strings.Cut(path, "/"+providersPath)
	if before == "" {
		if host = u.byName(requestHost); host == "" {
			return "", "", notFound("want /{registry host}/v1/providers/…: no provider has this proxy's own hostname")
		}
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
			return "", "", invalid(fmt.Errorf("invalid name %.80q in the path of a provider", name))
		}
		parts[i] = url.PathEscape(name)
	}
	return host, strings.Join(parts, "/"), nil
}

// isProviderName reports whether s can be in a provider's path: namespace or type in any script, version, platform.
func isProviderName(s string) bool {
	for i, c := range s {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && (i == 0 || !strings.ContainsRune("-_.+", c)) {
			return false
		}
	}
	return 0 < len(s) && len(s) <= 255
}
