package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

const locationHeader = "X-Terraform-Get"

// downloadURL returns the URL at which the client requests the location of a version. The version may be empty.
func (v *visit) downloadURL(version string) (string, bool) {
	if version == "" {
		return v.in(v.path() + "/download")
	}
	return v.in(v.path() + "/" + version + "/download")
}

// asksDownload requests the location of the newest version. It returns the answer and the requested URL.
func (v *visit) asksDownload() (*answer, string) {
	spelled, canonical, ok := v.newest()
	if !ok {
		return nil, ""
	}
	if v.raw {
		canonical = spelled
	}
	u, _ := v.downloadURL(canonical)
	return v.get(ofModules, u), u
}

func answersDownload(v *visit) Result {
	a, _ := v.asksDownload()
	if a == nil {
		return after("versions.parsable")
	}
	location, err := v.location(a)
	switch {
	case err == nil:
		return pass("%s: %s", a, location)
	case v.name == dependabot && a.err == nil && a.status < 400:
		return warn("%v: Dependabot finds no release notes", err)
	}
	return fail("%v", err)
}

func terraformLocation(a *answer) (string, error) {
	if a.err == nil && a.status != http.StatusOK && a.status != http.StatusNoContent {
		return "", errors.New(a.String())
	}
	return headerLocation(a)
}

func dependabotLocation(a *answer) (string, error) {
	if a.err == nil && a.status != http.StatusNoContent {
		return "", errors.New(a.String())
	}
	return headerLocation(a)
}

func checkovLocation(a *answer) (string, error) {
	if a.err == nil && a.status >= 400 {
		return "", errors.New(a.String())
	}
	return headerLocation(a)
}

// headerLocation reads the header, with any status.
func headerLocation(a *answer) (string, error) {
	if a.err != nil {
		return "", a.err
	}
	location := a.header.Get(locationHeader)
	if location == "" {
		return "", fmt.Errorf("%s without a header %s", a, locationHeader)
	}
	return location, nil
}

// tofuBody is the body that OpenTofu decodes.
type tofuBody struct {
	Location    string
	Credentials *bool `json:"use_registry_credentials"`
}

func tofuLocation(a *answer) (string, error) {
	if a.err != nil || a.status != http.StatusOK {
		return terraformLocation(a)
	}
	var body tofuBody
	if err := decode(a.body, &body, true); err != nil {
		return "", fmt.Errorf("%s, with a body that is not the JSON that OpenTofu requires: %w", a, err)
	}
	if body.Location != "" || body.Credentials != nil {
		return body.Location, nil
	}
	return headerLocation(a)
}

func terragruntLocation(a *answer) (string, error) {
	switch {
	case a.err != nil:
		return "", a.err
	case a.status < 200 || a.status > 299:
		return "", errors.New(a.String())
	case a.header.Get(locationHeader) != "":
		return a.header.Get(locationHeader), nil
	}
	var body map[string]string
	if err := json.Unmarshal(a.body, &body); err != nil || body["location"] == "" {
		return "", fmt.Errorf("%s without a header %s, and its body is not a JSON object of strings with a location", a, locationHeader)
	}
	return body["location"], nil
}

func trivyLocation(a *answer) (string, error) {
	if a.err != nil || a.status != http.StatusOK {
		return dependabotLocation(a)
	}
	var body struct{ Location string }
	if err := decode(a.body, &body, false); err != nil || body.Location == "" {
		return "", fmt.Errorf("%s without a location in its body, and Trivy reads the header of a 204 only", a)
	}
	return body.Location, nil
}

// where returns the location of the newest version as an absolute address. It returns false unless Terraform would
// download the same address.
func (v *visit) where() (string, bool) {
	location, found, right := v.locates()
	return found, location != "" && found == right
}

// locates returns the location of the newest version, the address that the client makes of it, and the address that
// Terraform makes of it.
func (v *visit) locates() (location, found, right string) {
	a, from := v.asksDownload()
	if a == nil {
		return "", "", ""
	}
	location, err := v.location(a)
	if err != nil {
		return "", "", ""
	}
	found, _ = v.resolve(v, from, location)
	right, _ = relative(v, from, location)
	return location, found, right
}

func isRelative(location string) bool {
	return strings.HasPrefix(location, "/") || strings.HasPrefix(location, "./") || strings.HasPrefix(location, "../")
}

// relative resolves a relative location against the requested URL.
func relative(_ *visit, from, location string) (string, error) {
	if !isRelative(location) {
		return location, nil
	}
	base, errBase := url.Parse(from)
	u, err := url.Parse(location)
	if err := errors.Join(errBase, err); err != nil {
		return "", err
	}
	return base.ResolveReference(u).String(), nil
}

// infracostResolve resolves a relative location against the base URL of modules.
func infracostResolve(v *visit, from, location string) (string, error) {
	base, _ := v.in("")
	if base == "" {
		base = from
	}
	return relative(v, base, location)
}

// checkovResolve puts the host in front of a relative location.
func checkovResolve(v *visit, _, location string) (string, error) {
	if !isRelative(location) {
		return location, nil
	}
	return v.root.Scheme + "://" + v.root.Host + location, nil
}

func asIs(_ *visit, _, location string) (string, error) { return location, nil }

var (
	forced    = regexp.MustCompile(`^[A-Za-z0-9]+::`)
	shorthand = regexp.MustCompile(`^(github\.com|bitbucket\.org|gitlab\.com|[^/]*\.amazonaws\.com|www\.googleapis\.com)/|^git@`)
	module    = regexp.MustCompile(`^([^/]+\.[^/]+/)?[^/.]+/[^/]+/[^/]+$`)
	// The addresses that Trivy accepts. http counts as https if the registry has no https.
	trivyTakes = regexp.MustCompile(`^(github\.com/|bitbucket\.org/|s3:|git@|git:|hg:|https?:|gcs:)`)
)

// sameAddress fails if the client uses another address than Terraform.
func sameAddress(v *visit) Result {
	switch location, found, right := v.locates(); {
	case location == "":
		return after("download.location")
	case found != right:
		return fail("the location is %q: downloads %q instead of %s", location, found, right)
	default:
		return pass("%s", found)
	}
}

// fetchable fails for addresses that mislead the client.
func fetchable(v *visit) Result {
	at, ok := v.where()
	if !ok {
		return after("download.location")
	}
	whole, subdir := splitSubdir(at)
	u, err := url.Parse(whole)
	switch {
	case strings.Contains(subdir, "*"):
		return fail("%s: no client expands //%s in the location from a registry", at, subdir)
	case strings.HasPrefix(whole, "file:"):
		return fail("%s: a file on the client's machine", at)
	case forced.MatchString(whole) || shorthand.MatchString(whole):
		if v.name == trivy && !trivyTakes.MatchString(whole) {
			return fail("%s: Trivy does not fetch that", at)
		}
		return pass("%s", at)
	case module.MatchString(whole):
		return fail("%s: the address of a module instead of a package", at)
	case err != nil || u.Scheme == "" || u.Host == "" && u.Scheme != "file":
		return fail("%s: not the address of a package", at)
	case v.name == trivy && (!trivyTakes.MatchString(whole) || u.Scheme == "http" && !v.secure(u)):
		return fail("%s: Trivy does not fetch that", at)
	case u.User != nil:
		return warn("an address with a user name or password, which errors of the client show")
	}
	return pass("%s", at)
}

// locatesVersion fails if the location is that of another version. Clients unpack the package of a location without
// checking its version.
func locatesVersion(v *visit) Result {
	location, found, _ := v.locates()
	if location == "" {
		return after("download.location")
	}
	_, newest, _ := v.newest()
	all, _, _ := v.listed()
	for _, spelled := range all {
		if canonical, err := modproxy.CanonicalVersion(spelled); err == nil && canonical != newest && nameVersion(found, canonical, newest) {
			return fail("the location of %s names the version %s: %s", newest, canonical, found)
		}
	}
	for _, spelled := range all {
		canonical, err := modproxy.CanonicalVersion(spelled)
		if err != nil || canonical == newest {
			continue
		}
		if v.raw {
			canonical = spelled
		}
		u, _ := v.downloadURL(canonical)
		if other, err := v.location(v.get(ofModules, u)); err == nil && other == location {
			return warn("%s and %s have the same location: %s", newest, canonical, found)
		}
		break
	}
	return pass("%s", found)
}

// nameVersion reports whether the last part of an address, or its ref, is the version other, and the address does not
// contain the version wanted. Versions in addresses stand alone, with or without a v, after a name and a hyphen, or
// before the suffix of an archive.
func nameVersion(address, other, wanted string) bool {
	whole, _ := splitSubdir(address)
	path, query, _ := strings.Cut(whole, "?")
	values, err := url.ParseQuery(query)
	if err != nil || strings.Contains(whole, wanted) {
		return false
	}
	ref := values.Get("ref")
	last := path[strings.LastIndex(path, "/")+1:]
	for suffix := range formats {
		last = strings.TrimSuffix(last, "."+suffix)
	}
	for _, name := range []string{ref, last} {
		if name == other || strings.HasSuffix(name, "v"+other) || strings.HasSuffix(name, "-"+other) || strings.HasSuffix(name, "/"+other) {
			return true
		}
	}
	return false
}

// splitSubdir separates the directory in a package from the package's address.
func splitSubdir(address string) (whole, subdir string) {
	start := 0
	if i := strings.Index(address, "://"); i >= 0 {
		start = i + 3
	}
	path, query, asked := strings.Cut(address[start:], "?")
	path, subdir, _ = strings.Cut(path, "//")
	if asked {
		path += "?" + query
	}
	return address[:start] + path, subdir
}

// answersDirectly returns the body of an answer that makes OpenTofu 1.12 and later download the package itself, or nil.
func (v *visit) answersDirectly() *tofuBody {
	var body tofuBody
	a, _ := v.asksDownload()
	if !v.direct || a == nil || a.err != nil || a.status != http.StatusOK || decode(a.body, &body, true) != nil || body.Credentials == nil {
		return nil
	}
	return &body
}

// directMode checks the address of such a download.
func directMode(v *visit) Result {
	body := v.answersDirectly()
	if body == nil {
		return without("no use_registry_credentials in the answer: the request for the package carries no token")
	}
	_, at, _ := v.locates()
	switch u, err := url.Parse(at); {
	case err != nil || forced.MatchString(at) || u.Scheme != "http" && u.Scheme != "https":
		return fail("use_registry_credentials with the location %s, which is not a URL of a web server", at)
	case u.Fragment != "":
		return fail("use_registry_credentials with the location %s, which has a fragment", at)
	case *body.Credentials && u.Host != v.root.Host:
		return fail("use_registry_credentials with the location %s: the token is sent to that host", at)
	}
	return pass("use_registry_credentials with the location %s", at)
}

// spelled makes a rule about another spelling of the newest version by a client.
func spelled(spell func(spelled, canonical string) string, lost string) func(*visit) Result {
	return func(v *visit) Result {
		listed, canonical, ok := v.newest()
		if !ok {
			return after("versions.parsable")
		}
		version := spell(listed, canonical)
		u, _ := v.downloadURL(version)
		a := v.get(ofModules, u)
		location, err := v.location(a)
		switch {
		case err == nil:
			return pass("%s: %s", a, location)
		case a.err == nil && a.status >= 400 && a.status < 500:
			return without("%s: %s", a, lost)
		}
		return fail("%s", err)
	}
}

func absentVersion(v *visit) Result {
	if _, ok := v.where(); !ok {
		return after("download.location")
	}
	u, _ := v.downloadURL("999.999.999")
	switch a := v.get(ofModules, u); {
	case a.err != nil:
		return fail("%s", a)
	case a.status == http.StatusNotFound:
		return pass("%s", a)
	case a.status < 400 || a.status >= 500 || a.status == http.StatusTooManyRequests:
		return fail("%s", a)
	default:
		return warn("%s: the client does not report a missing version", a)
	}
}

// stable requests the location twice. If its query may contain a time, the requests are a second apart.
func stable(v *visit) Result {
	first, ok := v.where()
	if !ok {
		return after("download.location")
	}
	if strings.Contains(first, "?") {
		select {
		case <-time.After(1100 * time.Millisecond):
		case <-v.ctx.Done():
		}
	}
	again := *v.session
	again.answers = map[string]*answer{}
	if second, _ := (&visit{&again, v.client, v.ctx}).where(); second != first {
		return warn("%s, then %s: the client downloads it each time", first, second)
	}
	return pass("the same address twice")
}

// The parts of a URL that Dependabot takes for a repository, at any position (common/lib/dependabot/source.rb).
var repository = regexp.MustCompile(`github\.com[/:][\w.-]+/[\w.-]+|gitlab\.com[/:][^/]+/[^/]+|bitbucket\.org[/:][\w.-]+/[\w.-]+|` +
	`azure\.com[/:][\w.-]+/([\w.-]+/)?_git/[\w.-]+|(https?|git|ssh)://git-codecommit.*\.com/v1/repos/`)

func noRepository(v *visit) Result {
	at, ok := v.where()
	if !ok {
		return after("download.location")
	}
	whole, _ := splitSubdir(at)
	u, err := url.Parse(whole)
	if err != nil || forced.MatchString(whole) || u.Scheme != "http" && u.Scheme != "https" {
		return pass("%s", at)
	}
	found := repository.FindString(whole)
	if host, _, _ := strings.Cut(strings.ReplaceAll(found, ":", "/"), "/"); found != "" && !strings.HasSuffix(u.Hostname(), host) {
		return fail("%s is mistaken for the repository %q", at, found)
	}
	r, err := v.request(http.MethodGet, ofPackage, u.Scheme+"://"+u.Host+"/status")
	if err != nil {
		return fail("%v", err)
	}
	if a := v.ask(r, v.hops(ofPackage)); a.err == nil && a.status == http.StatusOK && a.header.Get("X-GitHub-Request-Id") != "" {
		return fail("%s says that it is a GitHub server", r.URL)
	}
	return pass("%s", at)
}
