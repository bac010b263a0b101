package git

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modproxy/modproxy"
)

// address is the parsed and checked address of a repository. It contains no secret.
type address struct {
	scheme string // "https", "http" or "ssh"
	user   string // ssh only; never empty for ssh
	host   string // a name in lower case, or an IP address without brackets
	port   int    // 0 for the default port of the scheme
	path   string // escaped as in a URL; unescaped in the scp form
	scp    bool   // ssh, written as user@host:path: path is relative to the home directory
}

const maxAddress = 4096 // bytes

var (
	defaultPorts = map[string]int{"https": 443, "http": 80, "ssh": 22}

	hostPattern    = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)
	userPattern    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)
	sshPathPattern = regexp.MustCompile(`^[A-Za-z0-9._~/+@=%, -]+$`)
	helperPattern  = regexp.MustCompile(`^[A-Za-z0-9+.-]*::`)
	scpPattern     = regexp.MustCompile(`^(?:([^@:/]*)@)?([^@:/]+):(.+)$`)
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{modproxy.ErrInvalid}, args...)...)
}

// CheckURL returns an error for a URL that no [Getter] fetches, wherever it leads. Errors wrap [modproxy.ErrInvalid].
func CheckURL(raw string) error {
	_, _, err := parseSource(raw)
	return err
}

// parseSource returns the repository and the ref of a URL. The ref is empty for HEAD.
func parseSource(raw string) (a address, ref string, err error) {
	u, err := parseURL(raw)
	if err != nil {
		return a, "", err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return a, "", invalid("a git URL whose query cannot be read") // its text may be secret
	}
	for key, values := range query {
		switch {
		case key == "sshkey":
			return a, "", invalid("sshkey in a git URL: keys are configured, never taken from a location")
		case key != "ref" && key != "depth":
			return a, "", invalid("the query of a git URL: want nothing but ref and depth")
		case len(values) != 1:
			return a, "", invalid("%s more than once in a git URL", key)
		case key == "depth":
			if n, err := strconv.ParseUint(values[0], 10, 31); err != nil || n == 0 {
				return a, "", invalid("depth in a git URL: want a positive number")
			}
		case values[0] != "":
			if ref = values[0]; checkRef(ref) != nil {
				return a, "", checkRef(ref)
			}
		}
	}
	u.RawQuery, u.ForceQuery = "", false
	a, err = newAddress(u)
	return a, ref, err
}

// parseAddress reads the URL of a submodule. It may have the scp form, and must not have a query.
func parseAddress(raw string) (address, error) {
	m := scpPattern.FindStringSubmatch(raw)
	if m != nil && len(raw) <= maxAddress && !strings.Contains(raw, "://") && !helperPattern.MatchString(raw) {
		return address{scheme: "ssh", user: m[1], host: strings.ToLower(m[2]), path: m[3], scp: true}.checked(m[3])
	}
	u, err := parseURL(raw)
	if err != nil {
		return address{}, err
	}
	return newAddress(u)
}

func parseURL(raw string) (*url.URL, error) {
	switch {
	case len(raw) > maxAddress:
		return nil, invalid("a git URL of more than %d bytes", maxAddress)
	case helperPattern.MatchString(raw):
		return nil, invalid("a git URL with a transport helper: want https or ssh")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, invalid("not a git URL") // url.Error repeats the URL, which may contain a credential
	}
	return u, nil
}

// newAddress checks every part of u, and refuses unknown parts.
func newAddress(u *url.URL) (address, error) {
	a := address{scheme: u.Scheme, host: strings.ToLower(u.Hostname()), path: u.EscapedPath()}
	defaultPort, known := defaultPorts[a.scheme]
	_, hasPassword := u.User.Password()
	switch {
	case !known:
		return a, invalid("a git URL of another scheme: want https or ssh")
	case u.Opaque != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(a.path, "#"):
		return a, invalid("a git URL with more than host and path")
	case hasPassword:
		return a, invalid("a git URL with a password: configure a credential for its host instead")
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return a, invalid("a git URL with the port %q", port)
		}
		if int(n) != defaultPort {
			a.port = int(n)
		}
	}
	if a.scheme == "ssh" { // with other schemes, a user name alone asks for a password prompt
		a.user = u.User.Username()
	}
	return a.checked(u.Path)
}

// checked returns a if its user, host and path are allowed. path is a.path without escapes.
func (a address) checked(path string) (address, error) {
	trimmed := strings.Trim(path, "/")
	switch {
	case trimmed == "":
		return a, invalid("a git URL without a repository")
	case trimmed[0] == '-' || !utf8.ValidString(path) || strings.ContainsFunc(path, unprintable):
		return a, invalid("a git URL with a path that is not allowed")
	}
	for part := range strings.SplitSeq(trimmed, "/") {
		if part == "." || part == ".." {
			return a, invalid("the path of a git URL has a part %q", part)
		}
	}
	if a.scheme == "ssh" {
		a.user = cmp.Or(a.user, "git") // not the name of the user that runs this process
		switch {
		case !userPattern.MatchString(a.user):
			return a, invalid("an ssh URL with a user that is not allowed")
		case !sshPathPattern.MatchString(path):
			return a, invalid("an ssh URL with a character in its path that is not allowed")
		}
	}
	if ip, err := netip.ParseAddr(a.host); err == nil && ip.Zone() == "" {
		a.host = ip.String()
	} else if len(a.host) > 253 || !hostPattern.MatchString(a.host) || strings.Contains(a.host, "..") {
		return a, invalid("a git URL with the host %.80q", a.host)
	}
	return a, nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == '\\' }

func (a address) hostPort() string {
	host := a.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if a.port != 0 {
		host += ":" + strconv.Itoa(a.port)
	}
	return host
}

// origin returns the origin to which credentials are bound.
func (a address) origin() string { return a.scheme + "://" + a.hostPort() }

// url returns the address as a URL. The path of the scp form is then below the root.
func (a address) url() *url.URL {
	raw := a.String()
	if a.scp {
		raw = "ssh://" + a.user + "@" + a.hostPort() + "/" + (&url.URL{Path: strings.TrimPrefix(a.path, "/")}).EscapedPath()
	}
	u, err := url.Parse(raw)
	if err != nil {
		return &url.URL{} // not of an address that was checked
	}
	return u
}

// String returns the address in the form that git reads. The form is also used in messages.
func (a address) String() string {
	switch {
	case a.scp:
		return a.user + "@" + a.hostPort() + ":" + a.path
	case a.scheme == "ssh":
		return "ssh://" + a.user + "@" + a.hostPort() + a.path
	}
	return a.origin() + a.path
}

const maxRef = 250 // bytes

var (
	objectIDPattern = regexp.MustCompile(`^(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})$`)
	// Refs that git rev-parse may read as part of an object id: an abbreviated id, or the output of git describe.
	abbreviatedPattern = regexp.MustCompile(`^(?:.*-g)?[0-9a-fA-F]{4,64}$`)
	// Refs that git check-ref-format refuses, because of their characters, or the beginning or end of the whole or of a
	// part.
	notRefPattern = regexp.MustCompile(`^@$|[ ~^:?*[]|\.\.|@\{|^[-+]|\.$|(?:^|/)(?:\.|/|$)|\.lock(?:/|$)`)
)

// checkRef checks ref by the rules of git check-ref-format (https://git-scm.com/docs/git-check-ref-format). A valid ref
// is a name or an id, never an expression, a refspec, a pattern or an option.
func checkRef(ref string) error {
	if len(ref) > maxRef || !utf8.ValidString(ref) || strings.ContainsFunc(ref, unprintable) ||
		notRefPattern.MatchString(ref) {
		return invalid("ref %.80q: want the name of a branch or tag, or a commit id", ref)
	}
	return nil
}

func isObjectID(ref string) bool { return objectIDPattern.MatchString(ref) }

// isAbbreviated reports whether the meaning of ref, unless it is a name, depends on the whole repository.
func isAbbreviated(ref string) bool {
	return !isObjectID(ref) && (abbreviatedPattern.MatchString(ref) || strings.HasPrefix(ref, "origin/"))
}
