package oci

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// reference is a parsed location. It contains no secret.
type reference struct {
	host   string // in lower case, with a port unless it is 443
	name   string // of the repository
	tag    string
	digest string // of the manifest; empty if only the tag is known
}

const (
	defaultTag = "latest"
	maxName    = 255 // bytes of a repository's name, as in distribution's reference package
)

var (
	// The grammars are those of the distribution specification, and of oras-go, which OpenTofu uses.
	namePattern   = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagPattern    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	digestPattern = regexp.MustCompile(`^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)
)

// IsTag reports whether an OCI repository can have a tag with a name.
func IsTag(name string) bool { return tagPattern.MatchString(name) }

// IsRepository reports whether a repository can have a name: the path of a location without its first slash.
func IsRepository(name string) bool { return len(name) <= maxName && namePattern.MatchString(name) }

// parse reads a location, as resolveRepositoryRef and resolveManifestDescriptor in OpenTofu's internal/getmodules/oci_getter.go do. A
// commit of s takes the place of the tag or digest in the location.
func parse(s fetch.Source) (r reference, err error) {
	invalid := func(format string, args ...any) (reference, error) {
		return reference{}, fmt.Errorf("%w: location: "+format, append([]any{modproxy.ErrInvalid}, args...)...)
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Scheme != "oci" || u.Opaque != "" || u.Fragment != "":
		return invalid("want oci://host/repository") // its text may be secret
	case u.User != nil:
		return invalid("user information in an OCI location; configure a credential instead")
	}
	host, isOrigin := strings.CutPrefix(egress.Origin(&url.URL{Scheme: "https", Host: u.Host}), "https://")
	if !isOrigin {
		return invalid("%.80q is not the host of an OCI registry", u.Host)
	}
	r = reference{host: host, name: strings.TrimPrefix(u.Path, "/")}
	if !IsRepository(r.name) {
		return invalid("%.80q is not the name of a repository: want lower-case letters, digits, and single separators", r.name)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return invalid("the query of an OCI location cannot be read")
	}
	for name, values := range query {
		switch {
		case name != "tag" && name != "digest":
			return invalid("the query of an OCI location: want nothing but tag or digest")
		case len(values) > 1 || len(query) > 1:
			return invalid("an OCI location with more than one tag or digest")
		case name == "tag" && !IsTag(values[0]):
			return invalid("%.80q is not a tag", values[0])
		case name == "digest" && !digestPattern.MatchString(values[0]):
			return invalid("%.80q is not a digest: want sha256: or sha512:, and hexadecimal digits", values[0])
		}
		r.tag, r.digest = query.Get("tag"), query.Get("digest")
	}
	if s.Commit != "" {
		if r.digest = modproxy.DigestOfCommit(s.Commit); !digestPattern.MatchString(r.digest) {
			return invalid("%.80q is not the digest of a manifest", s.Commit)
		}
	}
	if r.tag == "" && r.digest == "" {
		r.tag = defaultTag
	}
	return r, nil
}

// digits returns the hexadecimal digits of a digest. Their number tells the algorithm: see [modproxy.DigestOfCommit].
func digits(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex
}

// server returns the host that serves the API. As oras-go does for OpenTofu, it replaces the name of Docker Hub.
func (r reference) server() string {
	if r.host == "docker.io" {
		return "registry-1.docker.io"
	}
	return r.host
}

// url returns the URL of a part of the repository's API, such as tags/list.
func (r reference) url(part string) *url.URL {
	return &url.URL{Scheme: "https", Host: r.server(), Path: "/v2/" + r.name + "/" + part}
}

// repository returns the location of the repository.
func (r reference) repository() string { return "oci://" + r.host + "/" + r.name }

// String returns the location.
func (r reference) String() string {
	if r.digest != "" {
		return r.repository() + "?digest=" + r.digest
	}
	return r.repository() + "?tag=" + r.tag
}
