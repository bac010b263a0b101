package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
)

const (
	maxProvider     = 1 << 20          // bytes of a document: the longest list of versions has a quarter of it
	providerTimeout = 10 * time.Second // for one question
)

// Provider asks the provider registry of host for the document at path, which is below its providers.v1 base URL
// (https://developer.hashicorp.com/terraform/internals/provider-registry-protocol). The document is as it came, but
// with absolute URLs. Callers share it and do not change it.
//
// Errors: [modproxy.ErrNotFound], also when host offers no providers; [modproxy.ErrDenied]; [modproxy.ErrUnavailable].
func (c *Client) Provider(ctx context.Context, host, path string) ([]byte, error) {
	answer := shared(ctx, &c.passing, host+" "+path, providerTimeout, func(ctx context.Context) (any, error) {
		return question(ctx, c, serviceOf{host, providersV1}, path, maxProvider, readProvider)
	})
	select {
	case r := <-answer:
		if r.Err != nil {
			return nil, fmt.Errorf("provider %s/%s: %w", host, path, r.Err)
		}
		return r.Val.([]byte), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("provider %s/%s: %w: %w", host, path, modproxy.ErrUnavailable, context.Cause(ctx))
	}
}

func readProvider(res *http.Response, _ *url.URL, body []byte) ([]byte, error) {
	document, err := absoluteURLs(res.Request.URL, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, egress.Redact(res.Request.URL), err)
	}
	return document, nil
}

// providerURLs are the members of a document about a package that clients resolve against the URL that the document
// came from, whatever the case of their names (registry_client.go in internal/getproviders of both).
var providerURLs = []string{"download_url", "shasums_url", "shasums_signature_url"}

// absoluteURLs returns document, which came from final, with absolute URLs; without a relative one, as it is.
func absoluteURLs(final *url.URL, document []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil || members == nil {
		return nil, fmt.Errorf("want a JSON object")
	}
	changed := false
	for name, raw := range members {
		var ref string
		isURL := slices.ContainsFunc(providerURLs, func(known string) bool { return strings.EqualFold(name, known) })
		if !isURL || json.Unmarshal(raw, &ref) != nil {
			continue
		}
		u, err := url.Parse(ref)
		if err != nil || u.IsAbs() {
			continue // the client will say what is wrong with it
		}
		members[name], _ = json.Marshal(final.ResolveReference(u).String()) // of a string there is no error
		changed = true
	}
	if !changed {
		return document, nil
	}
	return json.Marshal(members)
}
