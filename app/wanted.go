package app

import (
	"fmt"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/lock"
	"github.com/modproxy/modproxy/tfconfig"
)

// MaxList is how large a list of what is wanted may be, in bytes.
const MaxList = 16 << 20

// ParseWanted reads ADDRESS[//SUBDIR][@CONSTRAINT], the address of a module or of a provider. One without its hostname is one
// of host.
func ParseWanted(s, host string) (start closure.Start, err error) {
	source, constraint, given := strings.Cut(s, "@")
	address, subdir, below := strings.Cut(source, "//")
	if version, after, misplaced := strings.Cut(constraint, "//"); misplaced {
		return start, fmt.Errorf("%.200q: the subdirectory comes before the version: %.200s", s, address+"//"+after+"@"+version)
	}
	m, err := hostname.ParseAddress(address, host)
	if err == nil && given {
		_, err = modproxy.ParseConstraint(constraint)
	}
	if err == nil && below && m.IsProvider() {
		err = fmt.Errorf("%w: %.200q: a provider has no subdirectory", modproxy.ErrInvalid, s)
	}
	if m.IsProvider() {
		start.Providers = []tfconfig.Requirement{{Name: m.Name, Source: m.String(), Version: constraint}}
		return start, err
	}
	start.Source, start.Version = m.String(), constraint
	if below {
		start.Source += "//" + subdir
	}
	return start, err
}

// ParseList reads the text of a file with what [ParseWanted] reads in each line that is not empty and does not begin with #.
// Behind a provider may be the platforms that are wanted of it.
func ParseList(name, text, host string) (all []closure.Start, err error) {
	for i, s := range strings.Split(text, "\n") {
		if s = strings.TrimSpace(s); s == "" || s[0] == '#' {
			continue
		}
		at := tfconfig.Pos{File: name, Line: i + 1}
		s, platforms := cutPlatforms(s)
		start, err := ParseWanted(s, host)
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

// ReadLock reads a file that "modproxy lock" wrote.
func ReadLock(name string) (all []admin.Locked, err error) {
	text, err := durable.ReadRegular(name, lock.MaxSize)
	if err != nil {
		return nil, err
	}
	entries, err := lock.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, e := range entries {
		all = append(all, admin.Locked{At: name, Name: admin.NameOf(e.Ref), Sum: e.Sum, Subdir: e.Subdir})
	}
	return all, nil
}
