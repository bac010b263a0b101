package conformance

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	maxDocument = 32 << 20         // bytes of a JSON document that are read at most
	patience    = 15 * time.Second // timeout of one answer; clients give up earlier
)

// session sends requests for one module to one registry.
type session struct {
	modproxy.Address
	root  *url.URL // URL by which clients know the registry, without a slash at its end
	at    *url.URL // URL of the registry: root, unless clients use another name
	below bool     // root has a path
	token string

	leads     map[string]bool            // addresses, as address returns them, that resolve to at
	transport *http.Transport            // for all requests, through the proxy of the environment
	named     map[string]*http.Transport // the same for a name that resolves to at and is in its certificate
	answers   map[string]*answer         // by request
	packages  map[string]*archive        // by format, User-Agent and URL
}

func newSession(o Options, m modproxy.Address) *session {
	root := *o.URL
	root.Path, root.RawPath = strings.TrimSuffix(root.Path, "/"), ""
	if root.Path == "" {
		root.Host = m.Host
	}
	s := &session{
		Address: m, root: &root, at: o.URL, below: root.Path != "", token: o.Token, named: map[string]*http.Transport{},
		answers: map[string]*answer{}, packages: map[string]*archive{},
	}
	// The names that resolve to the registry: its own, and for OpenTofu's registry the name of its second API.
	s.leads = map[string]bool{address(&root): true, address(&url.URL{Scheme: root.Scheme, Host: docsHost}): m.Host == tofuHost}
	s.transport = &http.Transport{
		DisableCompression: true, // Content-Encoding is checked
		Proxy:              http.ProxyFromEnvironment,
		DialContext:        new(net.Dialer).DialContext, // for HTTP/1.1
	}
	return s
}

// RoundTrip implements [http.RoundTripper]. A request for a name that resolves to the registry is sent to the registry
// with the Host header and TLS server name of that name, as if the name were a DNS alias.
func (s *session) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.leads[address(r.URL)] || address(r.URL) == address(s.at) {
		return s.transport.RoundTrip(r)
	}
	name := r.URL.Hostname()
	if s.named[name] == nil {
		s.named[name] = s.transport.Clone()
		s.named[name].TLSClientConfig = &tls.Config{ServerName: name}
	}
	led := r.Clone(r.Context())
	led.Host, led.URL.Host = cmp.Or(r.Host, r.URL.Host), s.at.Host
	res, err := s.named[name].RoundTrip(led)
	if res != nil {
		res.Request = r
	}
	return res, err
}

// address returns the host and port of u.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(port, "443"))
}

// secure reports whether clients that require https accept u.
func (s *session) secure(u *url.URL) bool { return u.Scheme == "https" || u.Scheme == s.root.Scheme }

// path returns the module in the form of paths of a registry.
func (s *session) path() string { return s.Namespace + "/" + s.Name + "/" + s.System }

// part is the purpose of a request. Clients choose its headers by it.
type part int

const (
	ofDiscovery part = iota
	ofModules
	ofPackage
)

// answer is the result of a request.
type answer struct {
	status int
	header http.Header
	body   []byte   // decoded
	url    *url.URL // after redirects
	coding string   // Content-Encoding of the body as received
	took   time.Duration
	err    error
}

// String describes the answer in a few words.
func (a *answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
}

// get requests a document as the client does. Equal requests are sent once.
func (v *visit) get(p part, address string) *answer {
	r, err := v.request(http.MethodGet, p, address)
	if err != nil {
		return &answer{err: err}
	}
	key := fmt.Sprint(address, r.Header, v.hops(p))
	a := v.answers[key]
	if a == nil {
		a = v.ask(r, v.hops(p))
		v.answers[key] = a
	}
	if wait := v.wait(p); a.err == nil && a.took > wait {
		late := *a
		late.err = fmt.Errorf("the answer took %s, and %s waits %s", a.took.Round(time.Millisecond), v.name, wait)
		return &late
	}
	return a
}

// request makes a request as the client does.
func (v *visit) request(method string, p part, address string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(v.ctx, method, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("%.200q is not a URL: %w", address, errors.Unwrap(err))
	}
	if r.URL.Host == "" || r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%.200q is not a URL of a web server", address)
	}
	set := func(name, value string) {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	set("User-Agent", v.agent)
	set("Accept-Encoding", v.encoding)
	switch p {
	case ofDiscovery:
		set("Accept", "application/json")
	case ofModules:
		set("X-Terraform-Version", v.header)
	case ofPackage:
		set("User-Agent", v.getter)
	}
	if v.token != "" && v.shows(p) {
		set("Authorization", "Bearer "+v.token)
	}
	return r, nil
}

// ask sends r and reads the answer.
func (s *session) ask(r *http.Request, hops int) *answer {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	start := time.Now()
	res, err := s.client(hops).Do(r.WithContext(ctx))
	if err != nil {
		return &answer{err: brief(err)}
	}
	defer res.Body.Close()
	a := &answer{status: res.StatusCode, header: res.Header, url: res.Request.URL, coding: res.Header.Get("Content-Encoding")}
	body := io.Reader(res.Body)
	if a.coding == "gzip" && r.Header.Get("Accept-Encoding") != "" {
		if body, err = gzip.NewReader(body); err != nil {
			a.err = fmt.Errorf("the answer is not gzip, although its Content-Encoding says so: %w", err)
			return a
		}
	}
	a.body, err = io.ReadAll(io.LimitReader(body, maxDocument+1))
	switch a.took = time.Since(start); {
	case err != nil:
		a.err = fmt.Errorf("the answer ends after %d bytes: %w", len(a.body), err)
	case len(a.body) > maxDocument:
		a.err = fmt.Errorf("the answer has more than %d bytes", maxDocument)
	}
	a.body = bytes.TrimSpace(a.body)
	return a
}

func (s *session) client(hops int) *http.Client {
	return &http.Client{Transport: s, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > hops {
			return fmt.Errorf("more than %d redirects", hops)
		}
		return nil
	}}
}

// brief removes the URL from an error of net/http, because the rule already names it.
func brief(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
