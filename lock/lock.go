// Package lock compares the modules that a client has installed with a file, and the file in which the client itself has its
// providers with a ledger.
//
// Invariant: what is compared is all that the client would load for a module of a registry: every file of its package,
// wherever in it the module is, for every call of it, nested ones included. What cannot be compared, because it does not
// come from a registry or is not as a client installs it, is reported or refused, never ignored.
//
// What comes from the address of a nested source, in a package that a proxy has rewritten, comes from the registry of that package.
//
// The clients keep no hash of a module. They keep a manifest of what they have installed (modules.json, internal/modsdir of
// both clients), which package lock reads instead of the configuration.
//
// # Copies
//
// When several calls need the same package, the clients download it once and copy it for the others, without files whose
// names begin with a dot (internal/copy/copy_dir.go). So one directory of a package has all of it, and each of the others
// must have exactly the same, or exactly the same without dot-files. When the call that was first is gone, and only a copy
// without dot-files is left, there is nothing to compare it with; it is refused, and installing again helps.
//
// # Providers
//
// The clients check what they install of providers themselves, against hashes in .terraform.lock.hcl: one that matches is
// enough for them. So every hash there must be one that the ledger has of that version, or somebody may have added it.
package lock

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// Name is what the file is called, beside the configuration that it is about.
const Name = "modproxy.lock"

// MaxSize is how large the file may be, in bytes.
const MaxSize = 16 << 20

// Entry says what one version of a module is.
type Entry struct {
	modproxy.Ref
	Sum    modproxy.Sum
	Subdir string // the directory in the package that the version is; empty for all of it
}

const header = `# The modules from registries that this configuration uses: module, version, the
# hash of the package, and the directory in it unless that is all of it.
# "modproxy lock" writes this file, and "modproxy lock --check" compares what is
# installed with it.
`

// Format returns the file with the given entries, in order. [Parse] reads it.
//
//	registry.example.com/acme/network/aws 1.2.0 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
//	registry.example.com/acme/vpc/aws 2.0.0 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU= modules/vpc
func Format(entries []Entry) []byte {
	var lines []string
	for _, e := range entries {
		lines = append(lines, e.line()+"\n")
	}
	slices.Sort(lines)
	return []byte(header + strings.Join(slices.Compact(lines), ""))
}

func (e Entry) line() string {
	return strings.TrimSuffix(e.Ref.String()+" "+string(e.Sum)+" "+e.Subdir, " ")
}

// Parse reads the file: an entry in every line that is not empty and does not begin with #, in any order. The error, which
// names the line, is [modproxy.ErrInvalid]; one version with two sums, which a merge may leave behind, is one.
func Parse(text []byte) ([]Entry, error) {
	var entries []Entry
	seen := map[modproxy.Ref]Entry{}
	for i, s := range strings.Split(string(text), "\n") {
		s = strings.TrimSuffix(s, "\r")
		if s == "" || s[0] == '#' {
			continue
		}
		e, err := parseLine(s)
		before, ok := seen[e.Ref]
		if err == nil && ok && before != e {
			err = fmt.Errorf("%w: %s has another sum or directory in a line above", modproxy.ErrInvalid, e.Ref)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if !ok {
			seen[e.Ref] = e
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func parseLine(s string) (e Entry, err error) {
	words := append(strings.SplitN(s, " ", 4), "")
	if len(words) < 4 {
		return e, fmt.Errorf("%w: want a module, a version and a sum", modproxy.ErrInvalid)
	}
	if e.Address, _, err = parseSource(words[0]); err != nil {
		return e, err
	}
	version, err := modproxy.CanonicalVersion(words[1])
	if err != nil {
		return e, err
	}
	e.Ref = e.At(version)
	e.Sum, e.Subdir = modproxy.Sum(words[2]), words[3]
	if _, err = e.Sum.Hash(); err != nil || e.line() != s || e.Subdir != "" && !isSubdir(e.Subdir) {
		return e, fmt.Errorf("%w: not as \"modproxy lock\" writes it", modproxy.ErrInvalid)
	}
	return e, nil
}

// isSubdir reports whether s can be the directory of a module in its package. One that begins with # would be a remark.
func isSubdir(s string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return s != "." && fs.ValidPath(s) && !strings.ContainsRune("# ", rune(s[0])) && !strings.ContainsFunc(s, unprintable)
}

// parseSource reads the source address of a module in a registry. An address without a hostname is an error: it does not
// say which registry is the client's default. Subdir is what follows a double slash.
func parseSource(s string) (m modproxy.Address, subdir string, err error) {
	address, subdir, _ := strings.Cut(s, "//")
	m, err = hostname.ParseModule(address, "")
	return m, subdir, err
}
