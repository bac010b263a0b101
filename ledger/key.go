package ledger

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/mod/module"

	"github.com/modproxy/modproxy"
)

// Go's rules for module paths and versions exclude some addresses and versions. Keys mark these with bytes that cannot occur in
// a hostname, a name or a version. The marks must not change: keys are in every record.
const (
	oddHost    = "xx--." // before a hostname; IDNA reserves such labels
	portMark   = "_"     // before a port, as an element of its own
	oddName    = "~"     // after a namespace, name or system
	oddVersion = "-_"    // before what follows the third number of a version
)

var (
	hosts   = regexp.MustCompile(`^[0-9a-z][0-9a-z-]*(\.[0-9a-z][0-9a-z-]*)*$`)
	devices = regexp.MustCompile(`^(?i:con|prn|aux|nul|(com|lpt)[1-9])$`) // see isDevice
	majors  = regexp.MustCompile(`^v[0-9]+$`)                             // see isMajor
	numbers = regexp.MustCompile(`^[0-9]+(\.[0-9]+){0,2}`)                // at the beginning of a version
)

// Key returns the Go module path and version that identify a version in a ledger: host/namespace/name/system, or
// host/namespace/type for a provider, and v1.2.3. No two versions have the same key, and [ParseKey] is the inverse.
//
//	registry.example.com:8443         registry.example.com/_8443/…   a port is an element of its own
//	localhost, con.example, gopkg.in  xx--.localhost/…               a host that Go's rules refuse
//	aux, com1, v1                     aux~                           a name that they refuse, and every v with digits
//	1.2.3-beta.1+b5                   v1.2.3-beta.1+b5
//	1.2.3+b5                          v1.2.3-_+b5                    build metadata without a pre-release
//	1.2.3.4                           v1.2.3-_.4                     more than three numbers
//
// The version must be canonical, and the host as package hostname normalises it. Otherwise the error is [modproxy.ErrInvalid].
func Key(v modproxy.Ref) (module.Version, error) {
	full := v.FullVersion()
	version, err := modproxy.CanonicalVersion(full)
	if err := cmp.Or(v.CheckAddress(), err); err != nil {
		return module.Version{}, err
	}
	if version != full {
		return module.Version{}, fmt.Errorf("%w: version %.80q: want its canonical form %.80q", modproxy.ErrInvalid, full, version)
	}
	host, port, hasPort := strings.Cut(v.Host, ":")
	if len(host) > 253 || !hosts.MatchString(host) || hasPort && !isPort(port) {
		return module.Version{}, fmt.Errorf("%w: hostname %.80q is not normalised", modproxy.ErrInvalid, v.Host)
	}
	if first, _, dotted := strings.Cut(host, "."); !dotted || isDevice(first) || host == "gopkg.in" || strings.HasPrefix(host, oddHost) {
		host = oddHost + host
	}
	path := []string{host}
	if hasPort {
		path = append(path, portMark+port)
	}
	for _, s := range strings.Split(v.WithoutHost(), "/") {
		if isDevice(s) || isMajor(s) {
			s += oddName
		}
		path = append(path, s)
	}
	if rest := version[len(numbers.FindString(version)):]; rest != "" && rest[0] != '-' {
		version = strings.TrimSuffix(version, rest) + oddVersion + rest
	}
	return module.Version{Path: strings.Join(path, "/"), Version: "v" + version}, nil
}

// ParseKey returns the version whose key is k. The error is [modproxy.ErrInvalid] for a key that [Key] does not return.
func ParseKey(k module.Version) (v modproxy.Ref, err error) {
	parts := strings.Split(k.Path, "/")
	v.Host = strings.TrimPrefix(parts[0], oddHost)
	if len(parts) > 1 && strings.HasPrefix(parts[1], portMark) { // no namespace begins with portMark
		v.Host += ":" + strings.TrimPrefix(parts[1], portMark)
		parts = parts[1:]
	}
	if len(parts) == 3 || len(parts) == 4 {
		v.Namespace, v.Name = strings.TrimSuffix(parts[1], oddName), strings.TrimSuffix(parts[2], oddName)
		if len(parts) == 4 {
			v.System = strings.TrimSuffix(parts[3], oddName)
		}
		v = v.At(strings.Replace(strings.TrimPrefix(k.Version, "v"), oddVersion, "", 1))
	}
	if again, err := Key(v); err != nil || again != k {
		return modproxy.Ref{}, fmt.Errorf("%w: key %.160q %.80q", modproxy.ErrInvalid, k.Path, k.Version)
	}
	return v, nil
}

// isDevice reports whether s is the name of a Windows device. Go module paths may not contain one. isDevice runs for every
// record, so it excludes most names by their length.
func isDevice(s string) bool { return (len(s) == 3 || len(s) == 4) && devices.MatchString(s) }

// isMajor reports whether s has the form of a major version at the end of a Go module path.
func isMajor(s string) bool { return strings.HasPrefix(s, "v") && majors.MatchString(s) }

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}
