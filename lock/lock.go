// Package lock checks installed modules and locked providers for changes.
//
// It compares modules with modproxy.lock, and the providers of .terraform.lock.hcl with a ledger.
//
//	calls, others, err := lock.Read(dir, ".terraform") // the modules that a client has installed
//	entries, err := lock.Parse(text)                   // of modproxy.lock
//	errs := lock.Check(entries, calls)
//
// Invariant: the comparison covers every file of the package of every call of a module of a registry, nested calls included, except
// git's own files, which packages do not have: [Passed] returns them. [Read] returns the modules that it cannot compare, because they
// do not come from a registry, as others. It returns an error if a module is not where a client installs it.
//
// In a package that a proxy has rewritten, modules from the address of a nested source (package nested) belong to the registry of
// that package: their Ref has the version of that package, with the variant of the nested source.
//
// The clients store no hash of a module. They store a manifest of the installed modules (modules.json, internal/modsdir of
// both clients). Package lock reads the manifest instead of the configuration.
//
// # Copies
//
// If several calls need the same package, the clients download it once and copy it for the other calls, without files whose
// names begin with a dot (internal/copy/copy_dir.go). So one directory has the whole package. Each of the others must have
// exactly the same files, or exactly the same without dot-files. If the first call was removed, and only a copy without
// dot-files is left, no whole package exists for the comparison: the copy is refused, and a new installation helps.
//
// # Providers
//
// The clients check installed providers themselves, against hashes in .terraform.lock.hcl. One matching hash suffices for
// them. Therefore every hash in the file must be in the ledger's record of that version: any other hash may have been added
// by an attacker.
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

// Name is the name of the lock file, in the directory of its configuration.
const Name = "modproxy.lock"

// MaxSize is the maximum size of modproxy.lock, in bytes. Callers that read the file check it; Parse does not.
const MaxSize = 16 << 20

// Entry is the locked content of one version of a module.
type Entry struct {
	modproxy.Ref
	Sum    modproxy.Sum
	Subdir string // the version's directory in the package; empty for the whole package
}

const header = `# The modules from registries that this configuration uses: module, version, the
# hash of the package, and the directory in it unless that is all of it.
# "modproxy lock" writes this file, and "modproxy lock --check" compares what is
# installed with it.
`

// Format returns the file with the given entries, sorted. [Parse] parses it.
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

// Parse parses modproxy.lock. Every line that is not empty and does not begin with # has an entry, in any order. Errors name the
// line and wrap [modproxy.ErrInvalid]. One version with two sums, which a merge may leave behind, is an error.
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

// isSubdir reports whether s can be the directory of a module in its package. A text that begins with # would be a comment.
func isSubdir(s string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return s != "." && fs.ValidPath(s) && !strings.ContainsRune("# ", rune(s[0])) && !strings.ContainsFunc(s, unprintable)
}

// parseSource parses the source address of a module in a registry. An address without a hostname is an error: it does not
// show the client's default registry. subdir is the text after a double slash.
func parseSource(s string) (m modproxy.Address, subdir string, err error) {
	address, subdir, _ := strings.Cut(s, "//")
	m, err = hostname.ParseModule(address, "")
	return m, subdir, err
}
