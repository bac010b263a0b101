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
)

// MaxList is how large a list of what is wanted may be, in bytes.
const MaxList = 16 << 20

// ParseWanted reads ADDRESS[//SUBDIR][@CONSTRAINT]. An address without its hostname is one of host.
func ParseWanted(s, host string) (call closure.Call, err error) {
	source, constraint, given := strings.Cut(s, "@")
	address, subdir, below := strings.Cut(source, "//")
	if version, after, misplaced := strings.Cut(constraint, "//"); misplaced {
		return call, fmt.Errorf("%.200q: the subdirectory comes before the version: %.200s", s, address+"//"+after+"@"+version)
	}
	m, err := hostname.ParseModule(address, host)
	if err == nil && given {
		_, err = modproxy.ParseConstraint(constraint)
	}
	call.Source, call.Version = m.String(), constraint
	if below {
		call.Source += "//" + subdir
	}
	return call, err
}

// ParseList reads the text of a file with what [ParseWanted] reads in each line that is not empty and does not begin with #.
func ParseList(name, text, host string) (all []closure.Call, err error) {
	for i, s := range strings.Split(text, "\n") {
		if s = strings.TrimSpace(s); s == "" || s[0] == '#' {
			continue
		}
		at := closure.Pos{File: name, Line: i + 1}
		call, err := ParseWanted(s, host)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at.Place(), err)
		}
		call.Pos = at
		all = append(all, call)
	}
	return all, nil
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
		all = append(all, admin.Locked{At: name, Name: admin.NameOf(e.ModuleVersion), Sum: e.Sum, Subdir: e.Subdir})
	}
	return all, nil
}
