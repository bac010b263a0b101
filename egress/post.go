package egress

import (
	"context"
	"net/http"
)

// Post requests r.URL with a small body. The request must not change anything: like [Client.Get], it may be sent more than
// once, also by package net/http if a reused connection turns out to be closed. A redirect is the response, regardless of
// r.Redirects. Otherwise Post is like Get.
func (c *Client) Post(ctx context.Context, r Request, body []byte) (*http.Response, error) {
	r.Redirects, r.body = 0, body
	return c.do(ctx, r)
}

func (r Request) method() string {
	if r.body == nil {
		return http.MethodGet
	}
	return http.MethodPost
}
