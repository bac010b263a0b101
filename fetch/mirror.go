package fetch

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/hostname"
)

// Mirror replaces the locations of a part of a forge by those of a mirror. [ParseMirror] makes it.
type Mirror struct{ from, to place }

// Mirrors is a list of mirrors. The first one that matches a location counts. Its result is not replaced again.
//
// A location matches by its host, port and path, with any getter and scheme. Hosts are compared without case, and paths with
// case, segment by segment, after their escapes were decoded. In a match with *, the path of the location must be plain: otherwise a
// publisher could leave the directory of the mirrors by a path that the mirror's server reads in another way.
//
// The new URL has the host, port, user and scheme of the mirror, the segments that * has matched, and the query of the location. It
// never has the user information of the location.
type Mirrors []Mirror

// place is a host with a path.
type place struct {
	scheme, user string // of a mirror; may be empty
	host         string
	port         string // empty for the default port of the scheme
	path         []string
	below        bool // not the path itself, but everything below it
}

var (
	// segment matches a plain segment of a path: servers do not differ in how they read it.
	segment     = regexp.MustCompile(`^[A-Za-z0-9._~+@=,-]+$`)
	mirrorUser  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	mirrorPorts = map[string]string{"https": "443", "http": "80", "ssh": "22", "oci": "443"}
)

func isPlainSegment(s string) bool { return segment.MatchString(s) && s != "." && s != ".." }

// ParseMirror parses a mirror. from is HOST/PATH, and matches the location with this path, with or without .git at its end. If from
// ends with the segment *, it matches all locations below, at least one segment deep. to is HOST/PATH or SCHEME://HOST/PATH, and ends
// with * if from does; the scheme is https (the default), http or ssh, and ssh may have a user. Errors do not contain from and to, which
// may contain a credential.
func ParseMirror(from, to string) (m Mirror, err error) {
	if strings.Contains(from, "://") || strings.Contains(from, "::") {
		return m, errors.New("from: want HOST/PATH, without a getter and a scheme: it matches locations of every kind")
	}
	if m.from, err = parsePlace(from); err != nil {
		return m, fmt.Errorf("from: %w", err)
	}
	scheme, rest, hasScheme := strings.Cut(to, "://")
	if !hasScheme {
		scheme, rest = "", to
	} else if !slices.Contains([]string{"https", "http", "ssh"}, scheme) {
		return m, errors.New("to: want the scheme https, http or ssh, or none")
	}
	user, behind, hasUser := strings.Cut(rest, "@")
	if hasUser = hasUser && !strings.Contains(user, "/"); hasUser {
		rest = behind
	}
	if hasUser && (scheme != "ssh" || !mirrorUser.MatchString(user)) {
		return m, errors.New("to: only ssh://USER@HOST/PATH may have a user, without a password: configure a credential for the host instead")
	}
	if m.to, err = parsePlace(rest); err != nil {
		return m, fmt.Errorf("to: %w", err)
	}
	m.to.scheme = scheme
	if hasUser {
		m.to.user = user
	}
	if last := len(m.from.path) - 1; !m.from.below {
		m.from.path[last] = strings.TrimSuffix(m.from.path[last], ".git")
	}
	if m.from.port == mirrorPorts["https"] {
		m.from.port = ""
	}
	if m.to.port == mirrorPorts[cmp.Or(scheme, "https")] {
		m.to.port = ""
	}
	switch {
	case m.from.below != m.to.below:
		return m, errors.New("want * at the end of both from and to, or of neither")
	case scheme == "" && m.from.host == m.to.host && m.from.port == m.to.port && slices.Equal(m.from.path, m.to.path):
		return m, errors.New("to is the same as from; with a scheme, to changes the scheme of the locations")
	}
	return m, nil
}

// parsePlace parses HOST/PATH.
func parsePlace(s string) (p place, err error) {
	host, rest, _ := strings.Cut(s, "/")
	name, port, hasPort := strings.Cut(host, ":")
	if n, err := strconv.ParseUint(port, 10, 16); hasPort && (err != nil || n == 0 || strconv.FormatUint(n, 10) != port) {
		return p, errors.New("want a port from 1 to 65535")
	}
	if strings.ContainsAny(host, "@?#") {
		return p, errors.New("want HOST/PATH")
	}
	if p.host, err = hostname.Parse(name); err != nil {
		return p, err
	}
	p.port, p.path = port, strings.Split(rest, "/")
	if last := len(p.path) - 1; p.path[last] == "*" {
		p.path, p.below = p.path[:last], true
	}
	for _, s := range p.path {
		switch {
		case strings.Contains(s, "*"):
			return p, errors.New("* must be the whole last segment of the path")
		case !isPlainSegment(s):
			return p, errors.New("want HOST/PATH, where the segments of PATH have letters, digits and ._~+@=,- only, and the last one may be *")
		}
	}
	return p, nil
}

// Covers reports whether m matches every location that other matches.
func (m Mirror) Covers(other Mirror) bool {
	a, b := m.from, other.from
	if a.host != b.host || a.port != b.port || !a.below {
		return a.host == b.host && a.port == b.port && !b.below && slices.Equal(a.path, b.path)
	}
	more := len(b.path) - len(a.path)
	return more >= 0 && slices.Equal(a.path, b.path[:len(a.path)]) && (more > 0 || b.below)
}

// URL returns the URL of the mirror up to the * of To. Its scheme is https, http or ssh.
func (m Mirror) URL() *url.URL {
	u := m.to.url("https", m.to.path)
	if m.to.below {
		u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	}
	return u
}

// url returns the URL of a path at p.
func (p place) url(scheme string, path []string) *url.URL {
	u := &url.URL{Scheme: cmp.Or(p.scheme, scheme), Host: p.host, Path: "/" + strings.Join(path, "/")}
	if p.port != "" && p.port != mirrorPorts[u.Scheme] {
		u.Host += ":" + p.port
	}
	if p.user != "" {
		u.User = url.User(p.user)
	}
	return u
}

// find returns the mirror that counts for u, and the decoded segments of the path of u. A server may read a path that is not plain as it
// is written, or without its dots and escapes: find looks for both.
func (all Mirrors) find(u *url.URL) (m Mirror, segments []string, ok bool) {
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), cmp.Or(u.Port(), mirrorPorts[u.Scheme])
	segments = strings.Split(strings.TrimPrefix(path.Clean("/"+u.Path), "/"), "/")
	written := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	for i, s := range written {
		written[i], _ = url.PathUnescape(s)
	}
	i := slices.IndexFunc(all, func(m Mirror) bool {
		return m.from.host == host && cmp.Or(m.from.port, mirrorPorts[u.Scheme]) == port && (m.from.matches(segments) || m.from.matches(written))
	})
	if i < 0 {
		return m, nil, false
	}
	return all[i], segments, true
}

// matches reports whether p matches a path.
func (p place) matches(segments []string) bool {
	n := len(p.path)
	if p.below {
		return len(segments) > n && segments[n] != "" && slices.Equal(p.path, segments[:n])
	}
	last := len(segments) - 1
	return last == n-1 && slices.Equal(p.path[:last], segments[:last]) && p.path[last] == strings.TrimSuffix(segments[last], ".git")
}

// Replace returns the location at the mirror of l. If no mirror matches l, it returns l, and false. Its error is [modproxy.ErrInvalid]
// for a path that is not plain, and [modproxy.ErrDenied] for a location that the mirror cannot have: it is then not requested anywhere.
func (all Mirrors) Replace(l modproxy.Location) (_ modproxy.Location, ok bool, err error) {
	u, err := url.Parse(l.URL)
	if err != nil {
		return l, false, nil // the getter refuses it
	}
	m, segments, ok := all.find(u)
	if !ok {
		return l, false, nil
	}
	refused := func(is error, why string) (modproxy.Location, bool, error) {
		return l, true, fmt.Errorf("%w: %s: %s (operator: sources[] has a mirror of it)", is, egress.Redact(u), why)
	}
	trailing := strings.HasSuffix(u.Path, "/")
	plain := "/" + strings.Join(segments, "/")
	if trailing {
		plain += "/"
	}
	if plain != u.Path || strings.Count(u.EscapedPath(), "/") != strings.Count(plain, "/") ||
		slices.ContainsFunc(segments, func(s string) bool { return !isPlainSegment(s) }) {
		return refused(modproxy.ErrInvalid, "want a path whose segments have letters, digits and ._~+@=,- only")
	}
	scheme := "https"
	switch l.Getter {
	case "git":
	case "http", "https":
		if m.to.scheme == "ssh" {
			return refused(modproxy.ErrDenied, "an archive cannot be downloaded over ssh")
		}
		query, err := url.ParseQuery(u.RawQuery)
		delete(query, "archive")
		delete(query, "checksum")
		if err != nil || len(query) > 0 {
			return refused(modproxy.ErrDenied, "its query is not sent to another host, because it may contain a credential")
		}
	default:
		if scheme = u.Scheme; m.to.scheme != "" {
			return refused(modproxy.ErrDenied, fmt.Sprintf("locations of the getter %.40q are not available over %s", l.Getter, m.to.scheme))
		}
	}
	at := m.to.path
	if m.to.below {
		at = slices.Concat(at, segments[len(m.from.path):])
	}
	to := m.to.url(scheme, at)
	if trailing {
		to.Path += "/"
	}
	to.RawQuery = u.RawQuery
	if l.Getter == "http" || l.Getter == "https" {
		l.Getter = to.Scheme
	}
	l.URL = to.String()
	return l, true, nil
}

// AtMirror adds to err, if it is not nil, that it is about the mirror of a URL.
func AtMirror(err error, of *url.URL) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (operator: sources[] names this mirror of %s)", err, egress.Redact(of))
}

// CheckRedirect returns [modproxy.ErrDenied] for a redirect to another host that leads to a location that has a mirror: modproxy does not
// download that location from the forge.
func (all Mirrors) CheckRedirect(from, to *url.URL) error {
	if _, _, ok := all.find(to); !ok || strings.EqualFold(from.Host, to.Host) {
		return nil
	}
	return fmt.Errorf("%w: redirected to %s, which is replaced by its mirror and not requested (operator: sources[])", modproxy.ErrDenied, egress.Redact(to))
}
