package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/module"

	"github.com/modproxy/modproxy"
)

// What Go's rules for module paths and versions have no room for is marked with
// bytes that cannot be in a hostname, a name or a version, in this way and no
// other. These rules do not change: keys are in every record.
const (
	oddHost    = "xx--." // before a hostname; IDNA reserves such labels
	portMark   = "_"     // before a port, as an element of its own
	oddName    = "~"     // after a namespace, name or system
	oddVersion = "-_"    // before what follows the third number of a version
)

// deviceNames cannot be elements of a Go module path, in any case of letters.
var deviceNames = []string{
	"con", "prn", "aux", "nul",
	"com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9",
	"lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
}

// Key is the Go module path and version under which a version of a module is in
// a ledger: host/namespace/name/system and v1.2.3. Different versions, and
// versions of different modules, have different keys, and [ParseKey] is the
// inverse.
//
//	registry.example.com:8443         registry.example.com/_8443/…   a port is an element of its own
//	localhost, con.example, gopkg.in  xx--.localhost/…               a host that Go's rules refuse
//	aux, com1, v1                     aux~                           a name that they refuse, and every v with digits
//	1.2.3-beta.1+b5                   v1.2.3-beta.1+b5
//	1.2.3+b5                          v1.2.3-_+b5                    build metadata without a pre-release
//	1.2.3.4                           v1.2.3-_.4                     more than three numbers
//
// The version must be canonical, and the host as package hostname normalises it;
// else the error is [modproxy.ErrInvalid].
func Key(m modproxy.Module, version string) (module.Version, error) {
	if err := m.Check(); err != nil {
		return module.Version{}, err
	}
	if canonical, err := modproxy.CanonicalVersion(version); err != nil {
		return module.Version{}, err
	} else if canonical != version {
		return module.Version{}, fmt.Errorf("%w: version %.80q: want its canonical form %.80q", modproxy.ErrInvalid, version, canonical)
	}
	name, port, hasPort := strings.Cut(m.Host, ":")
	if !isHost(name) || hasPort && !isPort(port) {
		return module.Version{}, fmt.Errorf("%w: hostname %.80q is not normalised", modproxy.ErrInvalid, m.Host)
	}
	if first, _, dotted := strings.Cut(name, "."); !dotted || isDevice(first) || name == "gopkg.in" || strings.HasPrefix(name, oddHost) {
		name = oddHost + name
	}
	path := []string{name}
	if hasPort {
		path = append(path, portMark+port)
	}
	for _, s := range []string{m.Namespace, m.Name, m.System} {
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

// ParseKey says which version of which module has the key k. A key that [Key]
// does not give is [modproxy.ErrInvalid].
func ParseKey(k module.Version) (modproxy.Module, string, error) {
	parts := strings.Split(k.Path, "/")
	host := strings.TrimPrefix(parts[0], oddHost)
	if len(parts) == 5 {
		port, ok := strings.CutPrefix(parts[1], portMark)
		if !ok {
			return modproxy.Module{}, "", badKey(k)
		}
		host += ":" + port
		parts = parts[1:]
	}
	if len(parts) != 4 {
		return modproxy.Module{}, "", badKey(k)
	}
	for i := range parts {
		parts[i] = strings.TrimSuffix(parts[i], oddName)
	}
	m := modproxy.Module{Host: host, Namespace: parts[1], Name: parts[2], System: parts[3]}
	version := strings.Replace(strings.TrimPrefix(k.Version, "v"), oddVersion, "", 1)
	if again, err := Key(m, version); err != nil || again != k {
		return modproxy.Module{}, "", badKey(k)
	}
	return m, version, nil
}

func badKey(k module.Version) error {
	return fmt.Errorf("%w: key %.160q %.80q", modproxy.ErrInvalid, k.Path, k.Version)
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

func isDevice(s string) bool {
	return len(s) <= 4 && slices.Contains(deviceNames, strings.ToLower(s))
}

// isMajor tells whether s would be the major version at the end of a Go module
// path.
func isMajor(s string) bool {
	return len(s) > 1 && s[0] == 'v' && strings.Trim(s[1:], "0123456789") == ""
}

// thirdNumber is where the third number of a canonical version ends.
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
