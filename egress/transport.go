package egress

import (
	"errors"
	"net/http"
)

// Transport is c for libraries that ask by an [http.RoundTripper]. It sends GET
// requests without a body and without credentials, once each, and hands a redirect
// back as an answer; the body has at most maxBytes.
//
// Errors: those of [Client.Get].
func (c *Client) Transport(maxBytes int64) http.RoundTripper {
	return transport{c, maxBytes}
}

type transport struct {
	client   *Client
	maxBytes int64
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || r.Body != nil && r.Body != http.NoBody {
		return nil, errors.New("egress: only GET is ever sent, without a body")
	}
	return t.client.Get(r.Context(), Request{URL: r.URL.String(), Header: r.Header, MaxBytes: t.maxBytes})
}
