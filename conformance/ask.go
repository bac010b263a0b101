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
	maxDocument = 32 << 20         // of a JSON document that is read, in bytes
	patience    = 15 * time.Second // for one answer; clients that give up do so before
)

// session asks one registry for one module.
type session struct {
	modproxy.Address
	root  *url.URL // where clients look for the registry, without a slash at its end
	at    *url.URL // where the registry is: root, unless clients know it by another name
	below bool     // root has a path
	token string

	leads     map[string]bool            // the addresses, as address returns them, that lead to at
	transport *http.Transport            // of all requests, through the proxy of the environment
	named     map[string]*http.Transport // the same for a name that leads to at, which its certificate has
	answers   map[string]*answer         // by what was asked
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
	// What leads to the registry: its name, and for OpenTofu's that of its second API.
	s.leads = map[string]bool{address(&root): true, address(&url.URL{Scheme: root.Scheme, Host: docsHost}): m.Host == tofuHost}
	s.transport = &http.Transport{
		DisableCompression: true, // what is compressed is looked at
		Proxy:              http.ProxyFromEnvironment,
		DialContext:        new(net.Dialer).DialContext, // by HTTP/1.1
	}
	return s
}

// RoundTrip implements [http.RoundTripper]. A request for a name that leads to the registry goes to where the registry is, with the
// Host header and the TLS server name of that name, as if the name were an alias in the DNS.
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

// address is where u leads, with its port.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(port, "443"))
}

// secure reports whether clients that insist on https take u.
func (s *session) secure(u *url.URL) bool { return u.Scheme == "https" || u.Scheme == s.root.Scheme }

// path is the module in the paths of a registry.
func (s *session) path() string { return s.Namespace + "/" + s.Name + "/" + s.System }

// part is what a request is for, by which clients choose its headers.
type part int

const (
	ofDiscovery part = iota
	ofModules
	ofPackage
)

// answer is what came of a request.
type answer struct {
	status int
	header http.Header
	body   []byte   // decoded
	url    *url.URL // after redirects
	coding string   // of the body as it came
	took   time.Duration
	err    error
}

// String says what came, in a few words.
func (a *answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
}

// get asks for a document as the client does, once.
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
		return nil, fmt.Errorf("%.200q is no URL: %w", address, errors.Unwrap(err))
	}
	if r.URL.Host == "" || r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%.200q is no URL of a web server", address)
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
			a.err = fmt.Errorf("the answer is not the gzip that it says: %w", err)
			return a
		}
	}
	a.body, err = io.ReadAll(io.LimitReader(body, maxDocument+1))
	switch a.took = time.Since(start); {
	case err != nil:
		a.err = fmt.Errorf("the answer breaks off after %d bytes: %w", len(a.body), err)
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

// brief leaves out of an error of net/http what was asked, which the rule says.
func brief(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
