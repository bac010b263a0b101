package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/hint"
)

// A Client asks the API of one proxy.
type Client struct {
	base  string
	token string // empty for a proxy in this process or on this machine
	http  *http.Client
}

// newClient returns a client that connects by dial, or, if that is nil, over the network.
func newClient(base, token string, dial func(ctx context.Context, network, address string) (net.Conn, error)) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if dial != nil {
		transport = &http.Transport{DialContext: dial, DisableKeepAlives: true}
	}
	return &Client{base, token, &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Remote returns a client of the proxy at a URL, which is shown an operator's token.
func Remote(server, token string) (*Client, error) {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, errors.New("want the URL of the proxy, such as https://modules.example.com")
	case u.Scheme == "http" && !hostname.IsLocal(u.Hostname()):
		return nil, fmt.Errorf("want an https URL: a token must not cross a network unencrypted to %s", u.Host)
	case token == "":
		return nil, hint.With(errors.New("no token is given"), tokenHint)
	}
	return newClient(strings.TrimRight(server, "/"), token, nil), nil
}

const tokenHint = `--token-file, or the variable MODPROXY_TOKEN, gives an operator's token; "modproxy token create NAME --admin" makes one where the proxy is`

// localBase has the name under which every proxy answers on its own machine. What is
// dialled does not depend on it.
const localBase = "http://localhost"

// Inside returns a client of a handler in this process, which no other process can
// reach. done ends the handler's server; the client is not used after it.
func Inside(handler http.Handler) (c *Client, done func() error) {
	listener := make(inside)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener) // ends with Close
	return newClient(localBase, "", listener.dial), server.Close
}

// inside is a [net.Listener] that only this process can connect to.
type inside chan net.Conn

func (l inside) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l inside) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l inside) Close() error { close(l); return nil }

func (l inside) Addr() net.Addr { return &net.UnixAddr{Name: "inside", Net: "pipe"} }

// ask sends in, calls each with every item of the answer, and returns its end.
func ask[Item, End any](
	ctx context.Context, c *Client, method, path string, in any, each func(Item) error,
) (end End, err error) {
	answer, err := c.send(ctx, method, path, in)
	if err != nil {
		return end, err
	}
	defer answer.Body.Close()
	for lines := json.NewDecoder(answer.Body); ; {
		var l line[Item, End]
		if err := lines.Decode(&l); err != nil {
			return end, fmt.Errorf("the answer was cut off, the modproxy that serves may have ended: %w", err)
		}
		switch {
		case l.Error != "":
			return end, errors.New(l.Error)
		case l.Done != nil:
			return *l.Done, nil
		case l.Item == nil:
		default:
			if err := each(*l.Item); err != nil {
				return end, err
			}
		}
	}
}

// send sends in as JSON, in the query if the method is GET, or as it is if it is an
// [io.Reader], unless it is nil. The caller closes the answer's body.
func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	body, ok := in.(io.Reader)
	if in != nil && !ok {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
		if method == http.MethodGet {
			var fields map[string]string
			if err := json.Unmarshal(text, &fields); err != nil {
				return nil, err
			}
			query := url.Values{}
			for name, value := range fields {
				query.Set(name, value)
			}
			path, body = path+"?"+query.Encode(), nil
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+apiPath+path, body)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(r)
	switch {
	case err != nil && c.token != "":
		return nil, err // which names the URL
	case err != nil:
		return nil, hint.With(fmt.Errorf("the modproxy that serves: %w", err), "it may have ended just now: try again")
	case answer.StatusCode == http.StatusOK && answer.Header.Get(answerHeader) != "":
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, c.refused(answer)
}

// refused returns what is wrong when the answer is not one of the API, or not 200.
func (c *Client) refused(answer *http.Response) error {
	switch s := answer.StatusCode; {
	case s == http.StatusUnauthorized:
		return hint.With(errors.New(c.base+" does not know the token: it is mistyped, has expired or was revoked"), tokenHint)
	case (s == http.StatusNotFound || s == http.StatusOK) && answer.Header.Get(answerHeader) == "":
		return hint.With(errors.New(c.base+" has no API for this token: it is not an operator's, or this is not the URL of a modproxy"), tokenHint)
	case 300 <= s && s < 400:
		return errors.New(c.base + ": " + answer.Status + ": redirects are not followed; give the URL of the proxy itself")
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // what there is
	var answered struct{ Errors []string }
	if json.Unmarshal(text, &answered) != nil || len(answered.Errors) == 0 {
		return errors.New("the modproxy that serves answers " + answer.Status)
	}
	return errors.New(answered.Errors[0])
}
