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
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/hint"
)

// A Client asks the API of one proxy.
type Client struct {
	base, token string
	remote      bool
	http        *http.Client
}

func newClient(base, token string, transport *http.Transport) *Client {
	return &Client{base: base, token: token, http: &http.Client{
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
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("want an https URL: a token must not cross a network unencrypted to %s", u.Host)
	case token == "":
		return nil, hint.With(errors.New("no token is given"), tokenHint)
	}
	c := newClient(strings.TrimRight(server, "/"), token, http.DefaultTransport.(*http.Transport).Clone())
	c.remote = true
	return c, nil
}

const tokenHint = `--token-file, or the variable MODPROXY_TOKEN, gives an operator's token; "modproxy token create NAME --admin" makes one where the proxy is`

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || hostname.IsLocalhost(host)
}

// localBase has the name under which every proxy answers on its own machine. What is
// dialled does not depend on it.
const localBase = "http://localhost"

// Reach returns a client of the process that serves from the data directory. If no
// process does, it returns a claim of the directory instead.
func Reach(ctx context.Context, dir string) (*Client, *Claim, error) {
	if err := HaveData(dir); err != nil {
		return nil, nil, err
	}
	for end := time.Now().Add(claimWait); ; {
		claim, err := ClaimData(dir)
		if !errors.Is(err, ErrClaimed) {
			return nil, claim, err
		}
		if conn, err := dialSocket(ctx, dir); err == nil {
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, dir) }
			return newClient(localBase, "", &http.Transport{DialContext: dial, DisableKeepAlives: true}), nil, conn.Close()
		}
		if time.Now().After(end) {
			return nil, nil, hint.With(err, "it is starting, or another verb is at work: try again", "a proxy that could not make its socket says so in its log")
		}
		if err := pause(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// Inside returns a client of a handler in this process, which no other process can
// reach. done ends the handler's server.
func Inside(handler http.Handler) (c *Client, done func() error) {
	listener := &inside{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener) // ends with Close
	return newClient(localBase, "", &http.Transport{DialContext: listener.dial, DisableKeepAlives: true}), server.Close
}

// inside is a listener that only this process can connect to.
type inside struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *inside) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *inside) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]. It is called once.
func (l *inside) Close() error { close(l.done); return nil }

// Addr implements [net.Listener].
func (l *inside) Addr() net.Addr { return &net.UnixAddr{Name: "inside", Net: "pipe"} }

// An Error is what a proxy answers when it does not do something.
type Error struct {
	Status int
	Text   string
}

func (e *Error) Error() string { return e.Text }

// ask sends in as JSON, or as it is if it is an [io.Reader], unless it is nil, and
// reads the answer into out.
func (c *Client) ask(ctx context.Context, method, path string, in, out any) error {
	answer, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// send is ask without the reading. The caller closes the answer's body.
func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	body, ok := in.(io.Reader)
	if in != nil && !ok {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
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
	case err != nil && c.remote:
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
		return hint.With(&Error{s, c.base + " does not know the token: it is mistyped, has expired or was revoked"}, tokenHint)
	case (s == http.StatusNotFound || s == http.StatusOK) && answer.Header.Get(answerHeader) == "":
		return hint.With(&Error{s, c.base + " has no API for this token: it is not an operator's, or this is not the URL of a modproxy"}, tokenHint)
	case 300 <= s && s < 400:
		return &Error{s, c.base + ": " + answer.Status + ": redirects are not followed; give the URL of the proxy itself"}
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // what there is
	var answered struct{ Errors []string }
	if json.Unmarshal(text, &answered) != nil || len(answered.Errors) == 0 {
		answered.Errors = []string{"the modproxy that serves answers " + answer.Status}
	}
	return &Error{answer.StatusCode, answered.Errors[0]}
}
