package modproxy

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Location is a go-getter address: a registry's answer in X-Terraform-Get, or in a JSON location.
type Location struct {
	Getter string // the getter as written, else "git" for a shorthand, else the scheme of the URL
	URL    string // with its query, without getter and subdirectory; for locations at this proxy, perhaps a path from the root
	// Subdir is the directory in the package: slash-separated, clean, relative, and empty for the package's root. It may
	// contain glob patterns: see [Location.SplitGlob].
	Subdir string
	Kept   bool // the package is cached
}

var (
	getterPattern = regexp.MustCompile(`^([A-Za-z0-9]+)::(.+)$`)
	scpPattern    = regexp.MustCompile(`^git@([^:/]+):/?(.+)$`)
)

// maxLocation is the maximum length of a location, in bytes.
const maxLocation = 4096

// ParseLocation parses a registry's answer to a request for base. The grammar is that of go-getter as the clients use it: a
// forced getter; the GitHub, GitLab, Bitbucket and scp shorthands; the subdirectory after a double slash. A location that
// begins with /, ./ or ../ is relative to base (internal/registry/client.go of both clients). Errors wrap [ErrInvalid]. A
// well-formed location may have a getter that modproxy does not implement.
func ParseLocation(s string, base *url.URL) (Location, error) {
	invalid := func(format string, args ...any) (Location, error) {
		return Location{}, fmt.Errorf("%w: location: "+format, append([]any{ErrInvalid}, args...)...)
	}
	switch {
	case s == "":
		return invalid("the registry returned an empty one")
	case len(s) > maxLocation:
		return invalid("%d bytes long, more than the %d that are allowed", len(s), maxLocation)
	case strings.ContainsFunc(s, unicode.IsControl):
		return invalid("it has a control character")
	}
	if strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") {
		ref, err := url.Parse(s)
		if err != nil {
			return invalid("not a relative URL")
		}
		if ref.Host != "" {
			return invalid("a relative URL must not name a host")
		}
		s = base.ResolveReference(ref).String()
	}
	l := Location{}
	if m := getterPattern.FindStringSubmatch(s); m != nil {
		l.Getter, s = m[1], m[2]
	}
	s, l.Subdir = splitSubdir(s)
	s, getter, more := expandShorthand(s)
	if l.Getter == "" {
		l.Getter = getter
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return invalid("not a URL") // the URL may carry a credential
	case u.Scheme == "":
		return invalid("want the URL of a package, not a local path or a module address")
	case u.Opaque != "" || u.Host == "" && !strings.HasPrefix(u.Path, "/") || u.Fragment != "" || strings.HasSuffix(s, "#"):
		return invalid("want a URL of the form scheme://host/path, without a fragment")
	}
	if l.Getter == "" {
		l.Getter = u.Scheme
	}
	if strings.ContainsAny(l.Getter, "+-.") {
		return invalid("%.80q is not the name of a getter", l.Getter)
	}
	l.Getter = strings.ToLower(l.Getter)
	l.URL = u.String()
	if rest, _ := splitSubdir(l.URL); rest != l.URL {
		return invalid("a double slash in the path of a shorthand")
	}
	if l.Subdir, err = cleanSubdir(more, l.Subdir); err != nil {
		return invalid("%w", err)
	}
	if n := len(l.String()); n > maxLocation {
		return invalid("%d bytes long, more than the %d that are allowed", n, maxLocation)
	}
	return l, nil
}

// splitSubdir cuts out the subdirectory: the text after the first double slash behind the scheme and before the query.
func splitSubdir(s string) (rest, subdir string) {
	s, query := cutQuery(s)
	scheme := ""
	if i := strings.Index(s, "://"); i >= 0 {
		scheme, s = s[:i+3], s[i+3:]
	}
	s, subdir, _ = strings.Cut(s, "//")
	return scheme + s + query, subdir
}

// cutQuery splits s before its first question mark.
func cutQuery(s string) (before, query string) {
	if i := strings.IndexByte(s, '?'); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// expandShorthand expands the shorthands of go-getter's detectors to URLs.
func expandShorthand(s string) (expanded, getter, subdir string) {
	if m := scpPattern.FindStringSubmatch(s); m != nil && m[2][0] != '/' {
		return "ssh://git@" + m[1] + "/" + m[2], "git", ""
	}
	host, _, _ := strings.Cut(s, "/")
	if !slices.Contains([]string{"github.com", "gitlab.com", "bitbucket.org"}, host) {
		return s, "", ""
	}
	s, query := cutQuery(s)
	parts := strings.Split(s, "/")
	if len(parts) < 3 || parts[1] == "" || parts[2] == "" {
		return s, "", "" // without a scheme; the caller returns an error
	}
	repository := "https://" + strings.TrimSuffix(strings.Join(parts[:3], "/"), ".git") + ".git"
	return repository + query, "git", strings.Join(parts[3:], "/")
}

func cleanSubdir(elem ...string) (string, error) {
	joined := path.Join(elem...)
	if joined == "" || joined == "." {
		return "", nil
	}
	if slices.Contains(strings.Split(strings.Join(elem, "/"), "/"), "..") {
		return "", fmt.Errorf("subdirectory %.80q leaves the package", joined)
	}
	allowed := func(r rune) bool {
		return unicode.In(r, unicode.Letter, unicode.Mark, unicode.Digit) || r == ' ' || strings.ContainsRune(subdirMarks, r)
	}
	if i := strings.IndexFunc(joined, func(r rune) bool { return !allowed(r) }); i >= 0 {
		r, _ := utf8.DecodeRuneInString(joined[i:])
		return "", fmt.Errorf("subdirectory %.80q contains %q; want letters, digits, spaces and %s", joined, r, subdirMarks)
	}
	if len(joined) > maxSubdir {
		return "", fmt.Errorf("subdirectory %.80q is longer than %d bytes", joined, maxSubdir)
	}
	return strings.TrimPrefix(joined, "/"), nil
}

const (
	maxSubdir = 1024 // bytes
	// subdirMarks are the allowed characters of a subdirectory beside letters, digits and spaces. Names of directories and
	// glob patterns use them. They are safe in terminals, and shells run no command because of them: subdirectories are shown
	// to people.
	subdirMarks = "/._-+@~=,%*?[]"
)

// SplitGlob splits Subdir after its last segment that is a glob pattern. pattern matches one directory, the root of the
// package, and rest is the subdirectory in it. Without a glob pattern, rest is Subdir.
func (l Location) SplitGlob() (pattern, rest string) {
	parts := strings.Split(l.Subdir, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		if strings.ContainsAny(parts[i], "*?[") {
			return strings.Join(parts[:i+1], "/"), strings.Join(parts[i+1:], "/")
		}
	}
	return "", l.Subdir
}

// AtCommit returns l, which has no query, at a commit ([Source]).
func (l Location) AtCommit(commit string) Location {
	if l.Getter == "oci" {
		l.URL += "?digest=" + DigestOfCommit(commit)
	} else {
		l.URL += "?ref=" + commit
	}
	return l
}

// DigestOfCommit returns the digest of an OCI manifest, whose hexadecimal digits are the commit of a package.
func DigestOfCommit(commit string) string {
	if len(commit) > 2*sha256.Size {
		return "sha512:" + commit
	}
	return "sha256:" + commit
}

// String returns the location in the form of X-Terraform-Get.
func (l Location) String() string {
	s := l.URL
	if l.Subdir != "" {
		before, query := cutQuery(s)
		s = before + "//" + l.Subdir + query
	}
	if l.Getter == "" || l.Getter == "http" || l.Getter == "https" || strings.HasPrefix(s, l.Getter+"://") {
		return s
	}
	return l.Getter + "::" + s
}
