package egress

import (
	"context"
	"net/http"
)

// Post asks r.URL with a body, which is small and of a question that changes nothing: like one of [Client.Get] it
// may be asked more than once, also by package net/http when a connection that was kept turns out to be closed. A
// redirect is an answer, whatever r.Redirects is. Everything else is as Get has it.
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
