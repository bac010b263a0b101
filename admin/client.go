package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/datadir"
	"github.com/modproxy/modproxy/internal/hint"
)

// A Client calls the API of one server.
type Client struct {
	inside *Server // in this process; nil if the server is another process
	base   string
	token  string // empty on the Unix socket
	http   *http.Client
}

// Inside returns a client of a server in this process.
func Inside(s *Server) *Client { return &Client{inside: s} }

func newClient(base, token string, transport *http.Transport) *Client {
	return &Client{base: base, token: token, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Reach returns a client of the process that serves from the data directory. If no process does, it returns a claim of the
// directory instead. The errors are those of [datadir.Connect].
func Reach(ctx context.Context, dir string) (*Client, *datadir.Claim, error) {
	dial, claim, err := datadir.Connect(ctx, dir)
	if dial == nil {
		return nil, claim, err
	}
	// Every proxy accepts this name from its own machine, and dial ignores it.
	return newClient("http://localhost", "", &http.Transport{DialContext: dial, DisableKeepAlives: true}), nil, nil
}

// Remote returns a client of the proxy at a URL. The client sends the proxy an operator's token.
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
	return newClient(strings.TrimRight(server, "/"), token, http.DefaultTransport.(*http.Transport).Clone()), nil
}

const tokenHint = `--token-file or the variable MODPROXY_TOKEN gives an operator's token; "modproxy token create NAME --admin" creates one on the proxy's machine`

// Call sends the request in to the endpoint e of c's server. It calls each with every item of the answer, and returns the end of
// the answer. If each returns an error, Call stops and returns this error.
func (e Endpoint[In, Item, End]) Call(ctx context.Context, c *Client, in In, each func(Item) error) (end End, err error) {
	if c.inside != nil {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var failed error
		end, err = e.answer(c.inside, ctx, in, func(item Item) {
			if failed = cmp.Or(failed, ctx.Err()); failed == nil {
				failed = each(item)
			}
			if failed != nil {
				stop()
			}
		})
		return end, cmp.Or(failed, err)
	}
	answer, err := c.send(ctx, e.method, e.path, in)
	if err != nil {
		return end, err
	}
	defer answer.Body.Close()
	for lines := json.NewDecoder(answer.Body); ; {
		var l line[Item, End]
		if err := lines.Decode(&l); err != nil {
			return end, fmt.Errorf("the answer was cut off; the serving modproxy may have ended: %w", err)
		}
		switch {
		case l.Error != "":
			return end, errors.New(l.Error)
		case l.Done != nil:
			return *l.Done, nil
		case l.Item != nil:
			if err := each(*l.Item); err != nil {
				return end, err
			}
		}
	}
}

// ErrNoAnswer is the error if the process that serves from the data directory has not begun to answer.
var ErrNoAnswer = errors.New("the serving modproxy does not answer")

// send sends the request in as JSON, or in the query if the method is GET. The caller closes the body of the answer.
func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	var body io.Reader = bytes.NewReader(text)
	query := url.Values{}
	if stream, ok := any(in).(streamed); ok {
		query, body = stream.query(), stream.body()
	} else if method == http.MethodGet {
		var fields map[string]string
		if err := json.Unmarshal(text, &fields); err != nil {
			return nil, err
		}
		for name, value := range fields {
			query.Set(name, value)
		}
		body = nil
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+apiPath+path, body)
	if err != nil {
		return nil, err
	}
	r.URL.RawQuery = query.Encode()
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(r)
	switch {
	case err != nil && (c.token != "" || ctx.Err() != nil):
		return nil, err // it names the URL, or the caller has ended ctx
	case err != nil:
		return nil, hint.With(fmt.Errorf("%w: %w", ErrNoAnswer, err), "it may just have ended: try again")
	case answer.StatusCode == http.StatusOK && answer.Header.Get(answerHeader) != "":
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, c.refused(answer)
}

// refused returns the error for an answer that is not from the API or has another status than 200.
func (c *Client) refused(answer *http.Response) error {
	switch s := answer.StatusCode; {
	case s == http.StatusUnauthorized:
		return hint.With(errors.New(c.base+" does not know the token: it is mistyped, has expired or was revoked"), tokenHint)
	case (s == http.StatusNotFound || s == http.StatusOK) && answer.Header.Get(answerHeader) == "":
		return hint.With(errors.New(c.base+" has no API for this token: it is not an operator's, this is not the URL of a modproxy, or its version "+
			"does not have this verb"), tokenHint)
	case 300 <= s && s < 400:
		return errors.New(c.base + ": " + answer.Status + ": redirects are not followed; give the URL of the proxy itself")
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // after an error, the part that was read
	var answered struct{ Errors []string }
	if json.Unmarshal(text, &answered) != nil || len(answered.Errors) == 0 {
		return errors.New("the serving modproxy answers " + answer.Status)
	}
	return errors.New(answered.Errors[0])
}
