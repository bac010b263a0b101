package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/module"

	"github.com/modproxy/modproxy"
)

// What Go's rules for module paths and versions have no room for is marked with bytes that cannot be in a hostname, a name
// or a version. These rules do not change: keys are in every record.
const (
	oddHost    = "xx--." // before a hostname; IDNA reserves such labels
	portMark   = "_"     // before a port, as an element of its own
	oddName    = "~"     // after a namespace, name or system
	oddVersion = "-_"    // before what follows the third number of a version
)

// Key returns the Go module path and version under which a version of a module is in a ledger:
// host/namespace/name/system and v1.2.3. Different versions, and versions of different modules, have different keys, and
// [ParseKey] is the inverse.
//
//	registry.example.com:8443         registry.example.com/_8443/…   a port is an element of its own
//	localhost, con.example, gopkg.in  xx--.localhost/…               a host that Go's rules refuse
//	aux, com1, v1                     aux~                           a name that they refuse, and every v with digits
//	1.2.3-beta.1+b5                   v1.2.3-beta.1+b5
//	1.2.3+b5                          v1.2.3-_+b5                    build metadata without a pre-release
//	1.2.3.4                           v1.2.3-_.4                     more than three numbers
//
// The version must be canonical, and the host as package hostname normalises it; else the error is [modproxy.ErrInvalid].
func Key(v modproxy.ModuleVersion) (module.Version, error) {
	if err := v.Check(); err != nil {
		return module.Version{}, err
	}
	version := v.Version
	if canonical, err := modproxy.CanonicalVersion(version); err != nil {
		return module.Version{}, err
	} else if canonical != version {
		return module.Version{}, fmt.Errorf("%w: version %.80q: want its canonical form %.80q", modproxy.ErrInvalid, version, canonical)
	}
	host, port, hasPort := strings.Cut(v.Host, ":")
	if !isHost(host) || hasPort && !isPort(port) {
		return module.Version{}, fmt.Errorf("%w: hostname %.80q is not normalised", modproxy.ErrInvalid, v.Host)
	}
	if first, _, dotted := strings.Cut(host, "."); !dotted || isDevice(first) || host == "gopkg.in" || strings.HasPrefix(host, oddHost) {
		host = oddHost + host
	}
	path := []string{host}
	if hasPort {
		path = append(path, portMark+port)
	}
	for _, s := range []string{v.Namespace, v.Name, v.System} {
		if isDevice(s) || isMajor(s) {
			s += oddName
		}
		path = append(path, s)
	}
	numbers := thirdNumber(version)
	if rest := version[numbers:]; rest != "" && rest[0] != '-' {
		version = version[:numbers] + oddVersion + rest
	}
	return module.Version{Path: strings.Join(path, "/"), Version: "v" + version}, nil
}

// ParseKey returns the version whose key is k. The error is [modproxy.ErrInvalid] for a key that [Key] does not return.
func ParseKey(k module.Version) (v modproxy.ModuleVersion, err error) {
	parts := strings.Split(k.Path, "/")
	v.Host = strings.TrimPrefix(parts[0], oddHost)
	if len(parts) == 5 {
		v.Host += ":" + strings.TrimPrefix(parts[1], portMark)
		parts = parts[1:]
	}
	if len(parts) == 4 {
		v.Namespace, v.Name, v.System = strings.TrimSuffix(parts[1], oddName), strings.TrimSuffix(parts[2], oddName), strings.TrimSuffix(parts[3], oddName)
		v.Version = strings.Replace(strings.TrimPrefix(k.Version, "v"), oddVersion, "", 1)
	}
	if again, err := Key(v); err != nil || again != k {
		return modproxy.ModuleVersion{}, fmt.Errorf("%w: key %.160q %.80q", modproxy.ErrInvalid, k.Path, k.Version)
	}
	return v, nil
}

func isHost(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || label[0] == '-' || strings.Trim(label, "0123456789abcdefghijklmnopqrstuvwxyz-") != "" {
			return false
		}
	}
	return len(s) <= 253
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}

// isDevice reports whether s cannot be an element of a Go module path, because Windows has a device by the name.
func isDevice(s string) bool {
	switch s = strings.ToLower(s); s {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(s) == 4 && (s[:3] == "com" || s[:3] == "lpt") && '1' <= s[3] && s[3] <= '9'
}

// isMajor reports whether s would be the major version at the end of a Go module path.
func isMajor(s string) bool {
	return len(s) > 1 && s[0] == 'v' && strings.Trim(s[1:], "0123456789") == ""
}

// thirdNumber returns where the third number of a canonical version ends.
func thirdNumber(version string) int {
	dots := 0
	for i := range len(version) {
		switch c := version[i]; {
		case '0' <= c && c <= '9':
		case c == '.' && dots < 2:
			dots++
		default:
			return i
		}
	}
	return len(version)
}
