// Package lock holds the modules that a client has installed to what a file says
// they are.
//
// Invariant: what is held is all that the client would load for a module of a
// registry: every file of its package, wherever in it the module is, for every call
// of it, nested ones included. What it cannot hold, because it does not come from a
// registry or is not as a client installs it, it names or refuses; it never passes
// it over.
//
// The clients keep no hash of a module. What they keep is a manifest of what they
// have installed (modules.json, internal/modsdir of both); package lock reads it and
// not the configuration.
//
// # Copies
//
// When several calls need the same package, the clients download it once and copy
// it for the others, without what begins with a dot (internal/copy/copy_dir.go). So
// there is a whole copy among the directories of a package, and the others are the
// whole one or the whole one without dot-files. They are held to that: exactly the
// one, or exactly the other. Where only a copy without dot-files is left, because
// the call that was first is gone, there is nothing to hold it to; it is refused,
// and installing anew helps.
package lock

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"path"
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
	Module  modproxy.Module
	Version string // canonical
	Sum     modproxy.Sum
	Subdir  string // the directory in the package that the version is; empty for all of it
}

const header = `# What the modules of registries are that this configuration is made of: module,
# version, the hash of the package, and the directory in it where it is not all of
# it. "modproxy lock" writes this file, and "modproxy lock --check" holds to it what
# is installed.
`

// Format is the file with the given entries, in order. Parse reads it.
//
//	registry.example.com/acme/network/aws 1.2.0 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
//	registry.example.com/acme/vpc/aws 2.0.0 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU= modules/vpc
func Format(entries []Entry) []byte {
	var lines []string
	for _, e := range entries {
		line := fmt.Sprintf("%s %s %s", e.Module, e.Version, e.Sum)
		if e.Subdir != "" {
			line += " " + e.Subdir
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	return []byte(header + strings.Join(slices.Compact(lines), ""))
}

// Parse reads the file: an entry in every line that is not empty and does not begin
// with #, in any order. Its error, which names the line, is [modproxy.ErrInvalid];
// so is one version with two sums, which is what a merge may leave behind.
func Parse(text []byte) ([]Entry, error) {
	var entries []Entry
	seen := map[Entry]int{}
	for i, line := range bytes.Split(text, []byte{'\n'}) {
		s := strings.TrimSuffix(string(line), "\r")
		if s == "" || s[0] == '#' {
			continue
		}
		e, err := parseLine(s)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		about := Entry{Module: e.Module, Version: e.Version}
		if at, ok := seen[about]; !ok {
			seen[about] = len(entries)
			entries = append(entries, e)
		} else if entries[at] != e {
			return nil, fmt.Errorf("line %d: %w: %s %s has another sum or directory in a line above", i+1, modproxy.ErrInvalid, e.Module, e.Version)
		}
	}
	return entries, nil
}

func parseLine(s string) (Entry, error) {
	words := strings.SplitN(s, " ", 4)
	if len(words) < 3 {
		return Entry{}, fmt.Errorf("%w: want a module, a version and a sum", modproxy.ErrInvalid)
	}
	subdir := ""
	if len(words) == 4 {
		subdir = words[3]
	}
	m, inside, err := parseSource(words[0])
	if err != nil {
		return Entry{}, err
	}
	version, err := modproxy.CanonicalVersion(words[1])
	if err != nil {
		return Entry{}, err
	}
	sum, ok := strings.CutPrefix(words[2], "h1:")
	raw, err := base64.StdEncoding.Strict().DecodeString(sum)
	if !ok || err != nil || len(raw) != 32 || inside != "" || m.String() != words[0] || version != words[1] ||
		len(words) == 4 && !isSubdir(subdir) {
		return Entry{}, fmt.Errorf("%w: not as \"modproxy lock\" writes it", modproxy.ErrInvalid)
	}
	return Entry{m, version, modproxy.Sum(words[2]), subdir}, nil
}

// isSubdir tells whether s can be the directory of a module in its package. One
// that begins with # would be taken for a remark by people.
func isSubdir(s string) bool {
	return s != "." && s == path.Clean(s) && !strings.ContainsRune("/# ", rune(s[0])) && s != ".." && !strings.HasPrefix(s, "../") && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// parseSource reads the source address of a module in a registry. Without a
// hostname it is one in the client's default registry, which the address does not
// say: that is an error. subdir is what stands behind a double slash.
func parseSource(s string) (m modproxy.Module, subdir string, err error) {
	address, subdir, _ := strings.Cut(s, "//")
	parts := strings.Split(address, "/")
	if len(parts) != 4 {
		return m, "", fmt.Errorf("%w: %.200q: want a module address with its hostname", modproxy.ErrInvalid, s)
	}
	m = modproxy.Module{Namespace: parts[1], Name: parts[2], System: parts[3]}
	if m.Host, err = hostname.Parse(hostname.Display(parts[0])); err != nil {
		return m, "", err
	}
	return m, subdir, m.Check()
}
