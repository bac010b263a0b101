package mirror

import (
	"fmt"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/lock"
	"github.com/modproxy/modproxy/tfconfig"
)

// MaxListSize is the maximum size of a list for [ParseList], in bytes.
const MaxListSize = 16 << 20

// ParseEntry parses ADDRESS[//SUBDIR][@CONSTRAINT], with the address of a module or provider. If the address has no hostname, the
// host is host. The start has no client; see [closure.Roots.Named].
func ParseEntry(s, host string) (start closure.Start, err error) {
	source, constraint, hasConstraint := strings.Cut(s, "@")
	address, subdir, hasSubdir := strings.Cut(source, "//")
	if version, after, misplaced := strings.Cut(constraint, "//"); misplaced {
		return start, fmt.Errorf("%.200q: the subdirectory comes before the version: %.200s", s, address+"//"+after+"@"+version)
	}
	m, err := hostname.ParseAddress(address, host)
	if err == nil && hasConstraint {
		_, err = modproxy.ParseConstraint(constraint)
	}
	switch m.Kind() {
	case modproxy.Provider:
		if err == nil && hasSubdir {
			err = fmt.Errorf("%w: %.200q: a provider has no subdirectory", modproxy.ErrInvalid, s)
		}
		start.Providers = []tfconfig.Requirement{{Name: m.Name, Source: m.String(), Version: constraint}}
		return start, err
	case modproxy.Module:
	}
	start.Source, start.Version = m.String(), constraint
	if hasSubdir {
		start.Source += "//" + subdir
	}
	return start, err
}

// ParseList parses the text of a file with an entry, as [ParseEntry] parses it, in each line. It ignores empty lines and lines that
// begin with #. The entry of a provider may be followed by platforms. name is the name of the file, for messages.
func ParseList(name, text, host string) (all []closure.Start, err error) {
	for i, s := range strings.Split(text, "\n") {
		if s = strings.TrimSpace(s); s == "" || s[0] == '#' {
			continue
		}
		at := tfconfig.Pos{File: name, Line: i + 1}
		s, platforms := cutPlatforms(s)
		start, err := ParseEntry(s, host)
		if err == nil && len(platforms) > 0 && len(start.Providers) == 0 {
			err = fmt.Errorf("%w: a module has no platforms", modproxy.ErrInvalid)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at.Place(), err)
		}
		start.Pos, start.Platforms = at, platforms
		for i := range start.Providers {
			start.Providers[i].Pos = at
		}
		all = append(all, start)
	}
	return all, nil
}

// cutPlatforms cuts the platforms off the end of a line.
func cutPlatforms(s string) (before string, platforms []modproxy.Platform) {
	for {
		at := strings.LastIndexAny(s, " \t")
		p, err := modproxy.ParsePlatform(s[at+1:])
		if at < 0 || err != nil {
			return s, platforms
		}
		s, platforms = strings.TrimSpace(s[:at]), append(platforms, p)
	}
}

// entryOf returns the line of a list that fetches f: ADDRESS[//SUBDIR][@CONSTRAINT], and the platform of a provider. The directory
// and the constraint come from an untrusted configuration. The constraint is in canonical form. The entry is empty if the constraint
// cannot be parsed, and without directory if the directory is not possible in an entry.
func entryOf(f closure.Found) string {
	base := f.Module.Base()
	line := f.Module.Address.String()
	if f.Subdir != "." && f.Module.IsListed() && fitsEntry(f.Subdir) {
		line += "//" + f.Subdir
	}
	switch {
	case base.Version != "":
		line += "@" + base.Version
	case f.Constraint != "":
		c, err := modproxy.ParseConstraint(f.Constraint)
		if err != nil {
			return ""
		}
		line += "@" + c.Canonical()
	}
	return strings.TrimSpace(line + " " + versionname.Of(f.Module).Platform)
}

// fitsEntry reports whether a directory is possible in an entry: no part of it ends a line, begins a constraint or is a platform.
func fitsEntry(dir string) bool { return clean.Text(dir) == dir && !strings.ContainsAny(dir, "@ ") }

// ReadLockFile reads a file that "modproxy lock" wrote.
func ReadLockFile(name string) (all []Locked, err error) {
	text, err := durable.ReadRegular(name, lock.MaxSize)
	if err != nil {
		return nil, err
	}
	entries, err := lock.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, e := range entries {
		all = append(all, Locked{At: name, Name: versionname.Of(e.Ref), Sum: e.Sum, Subdir: e.Subdir})
	}
	return all, nil
}
