package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// document is a valid discovery document.
type document struct {
	*answer
	modules string // value of modules.v1; empty without one
	others  map[string]json.RawMessage
}

func (v *visit) asksDiscovery() *answer {
	return v.get(ofDiscovery, v.root.String()+"/.well-known/terraform.json")
}

// discover returns the discovery document, or an error that describes its fault.
func (v *visit) discover() (*document, error) {
	a := v.asksDiscovery()
	switch {
	case a.err != nil:
		return nil, a.err
	case a.status != http.StatusOK:
		return nil, errors.New(a.String())
	}
	d := &document{answer: a}
	if err := json.Unmarshal(a.body, &d.others); err != nil || d.others == nil {
		return nil, fmt.Errorf("the answer is not a JSON object: %.60q", a.body)
	}
	if value, ok := d.others["modules.v1"]; ok {
		if err := json.Unmarshal(value, &d.modules); err != nil {
			return nil, fmt.Errorf("modules.v1 is not a string: %.60s", value)
		}
	}
	if d.modules == "" {
		return nil, errors.New("the answer has no modules.v1")
	}
	return d, nil
}

// in returns the URL of a path below the base URL of modules, as the client computes it. It returns false if that URL
// is wrong.
func (v *visit) in(path string) (string, bool) {
	if v.base == nil {
		return v.root.String() + "/v1/modules/" + path, true
	}
	d, err := v.discover()
	if err != nil {
		return "", false
	}
	found, err := v.base(v, d, path)
	return found, err == nil && sameURL(found, v.rightly(d, path))
}

// rightly returns the correct URL for in.
func (v *visit) rightly(d *document, path string) string {
	found, err := reference(v, d, path)
	if err != nil {
		return ""
	}
	return found
}

func sameURL(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && a != "" && *x == *y
}

func answersDiscovery(v *visit) Result {
	d, err := v.discover()
	if err != nil {
		return fail("%v", err)
	}
	return pass("modules.v1 is %q", d.modules)
}

func saysJSON(v *visit) Result {
	a := v.asksDiscovery()
	if a.err != nil || a.status != http.StatusOK {
		return after("discovery.answer")
	}
	given := a.header.Get("Content-Type")
	if kind, _, err := mime.ParseMediaType(given); err != nil || kind != "application/json" {
		return fail("Content-Type %q", given)
	}
	return pass("Content-Type %q", given)
}

func smallDiscovery(v *visit) Result {
	const limit = 1 << 20
	a := v.asksDiscovery()
	switch {
	case a.err != nil || a.status != http.StatusOK:
		return after("discovery.answer")
	case len(a.body) > limit:
		return fail("%d bytes", len(a.body))
	}
	return pass("%d bytes", len(a.body))
}

func findsBase(v *visit) Result {
	d, err := v.discover()
	if err != nil {
		return after("discovery.answer")
	}
	path := v.path() + "/versions"
	found, err := v.base(v, d, path)
	if err != nil {
		return fail("modules.v1 is %q: %v", d.modules, err)
	}
	if right := v.rightly(d, path); !sameURL(found, right) {
		return fail("modules.v1 is %q: requests %s instead of %s", d.modules, found, right)
	}
	return pass("asks %s", found)
}

func namesProviders(v *visit) Result {
	d, err := v.discover()
	switch {
	case err != nil:
		return after("discovery.answer")
	case d.others["providers.v1"] == nil:
		return without("no providers.v1: a configuration with providers of this host cannot be initialized")
	}
	return pass("providers.v1 is %s", d.others["providers.v1"])
}

// reference resolves path by RFC 3986, after adding a slash to the base.
func reference(_ *visit, d *document, path string) (string, error) {
	u, err := service(d)
	if err != nil {
		return "", err
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return u.ResolveReference(&url.URL{Path: path}).String(), nil
}

// service reads modules.v1 as terraform-svchost does.
func service(d *document) (*url.URL, error) {
	value, err := url.Parse(d.modules)
	if err != nil {
		return nil, errors.New("it is not a URL")
	}
	u := d.url.ResolveReference(value)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("its scheme is %q", u.Scheme)
	case u.Host == "":
		return nil, errors.New("it has no host")
	case u.User != nil:
		return nil, errors.New("it has a user name or password")
	}
	u.Fragment = ""
	return u, nil
}

// infracostBase joins strings.
func infracostBase(_ *visit, d *document, path string) (string, error) {
	u, err := service(d)
	if err != nil {
		return "", err
	}
	return u.String() + path, nil
}

// terragruntBase joins strings. Without a scheme it puts the host in front.
func terragruntBase(v *visit, d *document, path string) (string, error) {
	joined := strings.TrimSuffix(d.modules, "/") + "/" + path
	u, err := url.Parse(joined)
	if err != nil || u.Scheme != "" {
		return joined, err
	}
	return (&url.URL{Scheme: v.root.Scheme, Host: v.root.Host, Path: joined}).String(), nil
}

// renovateBase joins strings with one slash between them. If the result is not a URL, it puts the URL of the registry
// in front.
func renovateBase(v *visit, d *document, path string) (string, error) {
	joined := strings.TrimSuffix(d.modules, "/") + "/" + path
	if strings.HasPrefix(joined, "http://") || strings.HasPrefix(joined, "https://") {
		return joined, nil
	}
	return v.root.String() + "/" + strings.TrimPrefix(joined, "/"), nil
}

// dependabotBase accepts https URLs and paths that begin with a slash, and resolves path by RFC 3986.
func dependabotBase(v *visit, d *document, path string) (string, error) {
	u, err := url.Parse(d.modules)
	switch {
	case err != nil:
		return "", errors.New("it is not a URL")
	case u.Scheme == "" && u.Host == "" && strings.HasPrefix(u.Path, "/"):
		u.Scheme, u.Host = v.root.Scheme, v.root.Host
	case u.Scheme == "" || u.Host == "" || !v.secure(u):
		return "", errors.New("want an https URL, or a path with a slash at its beginning")
	}
	return u.ResolveReference(&url.URL{Path: path}).String(), nil
}

// updatecliBase appends both strings to the host.
func updatecliBase(v *visit, d *document, path string) (string, error) {
	return v.root.Scheme + "://" + v.root.Host + d.modules + path, nil
}

// checkovBase puts the host in front of a value without one, and resolves path by RFC 3986.
func checkovBase(v *visit, d *document, path string) (string, error) {
	u, err := url.Parse(d.modules)
	if err == nil && u.Host == "" {
		u, err = url.Parse(v.root.Scheme + "://" + v.root.Host + d.modules)
	}
	if err != nil {
		return "", errors.New("it is not a URL")
	}
	return u.ResolveReference(&url.URL{Path: path}).String(), nil
}
