package modproxy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Version is a version as the clients parse it. Its grammar is that of hashicorp/go-version, which is wider than semantic
// versioning: a leading v, one or more number segments, a pre-release with or without its dash.
type Version struct {
	segments []int64 // at least three
	pre      string
	metadata string
}

// maxVersion is the maximum length of a version, in bytes.
const maxVersion = 255

// ParseVersion parses a version in any spelling that a client accepts. Errors wrap [ErrInvalid].
func ParseVersion(s string) (Version, error) {
	bad := func() (Version, error) { return Version{}, fmt.Errorf("%w: version %.80q", ErrInvalid, s) }
	if len(s) > maxVersion {
		return bad()
	}
	v := Version{segments: make([]int64, 0, 3)} // most versions have three
	for rest, more := strings.TrimPrefix(s, "v"), true; more; {
		after := strings.TrimLeftFunc(rest, isDigit)
		segment, err := strconv.ParseInt(rest[:len(rest)-len(after)], 10, 64)
		if err != nil {
			return bad()
		}
		v.segments = append(v.segments, segment)
		if rest, more = strings.CutPrefix(after, "."); !more {
			v.pre = after
		}
	}
	for len(v.segments) < 3 {
		v.segments = append(v.segments, 0)
	}
	hasMetadata := false
	if v.pre, v.metadata, hasMetadata = strings.Cut(v.pre, "+"); hasMetadata && !isIdentifiers(v.metadata) {
		return bad()
	}
	if after, dashed := strings.CutPrefix(v.pre, "-"); dashed && isIdentifiers(after) {
		v.pre = after
	}
	if v.pre != "" && !isIdentifiers(v.pre) {
		return bad()
	}
	return v, nil
}

// isIdentifiers reports whether s is one or more dot-separated identifiers.
func isIdentifiers(s string) bool {
	for id := range strings.SplitSeq(s, ".") {
		if id == "" || strings.ContainsFunc(id, func(r rune) bool { return !isPlain(r) && r != '~' }) {
			return false
		}
	}
	return true
}

// CanonicalVersion returns the spelling of s that clients put into a download path. Errors wrap [ErrInvalid].
func CanonicalVersion(s string) (string, error) {
	v, err := ParseVersion(s)
	return v.String(), err // the text of the zero Version is empty
}

// String returns the canonical spelling: no leading v, no leading zeros, at least three segments, with build metadata.
func (v Version) String() string {
	b := make([]byte, 0, 32) // most versions are shorter
	for i, s := range v.segments {
		if i > 0 {
			b = append(b, '.')
		}
		b = strconv.AppendInt(b, s, 10)
	}
	if v.pre != "" {
		b = append(append(b, '-'), v.pre...)
	}
	if v.metadata != "" {
		b = append(append(b, '+'), v.metadata...)
	}
	return string(b)
}

// Prerelease reports whether v is a pre-release. Clients choose a pre-release only if a constraint names it exactly.
func (v Version) Prerelease() bool { return v.pre != "" }

// Release returns the release of the pre-release v. If v is not a pre-release, Release returns v.
func (v Version) Release() Version {
	v.pre = ""
	return v
}

// Rank returns a text that is equal for two versions exactly if [Version.Compare] returns 0 for them.
func (v Version) Rank() string {
	v.segments, v.metadata = v.segments[:max(1, len(v.significant()))], ""
	if strings.ContainsAny(v.pre, "0123456789") {
		identifiers := strings.Split(v.pre, ".")
		for i, id := range identifiers {
			if n, err := strconv.ParseUint(id, 10, 64); err == nil {
				identifiers[i] = strconv.FormatUint(n, 10)
			}
		}
		v.pre = strings.Join(identifiers, ".")
	}
	return v.String()
}

// Build returns a text that is equal for two versions exactly if [Version.Compare] returns 0 for them and their build
// metadata is equal.
func (v Version) Build() string { return v.Rank() + "+" + v.metadata }

// Compare compares versions by precedence, as semantic versioning does. It ignores build metadata.
func (v Version) Compare(w Version) int {
	if c := slices.Compare(v.significant(), w.significant()); c != 0 {
		return c
	}
	switch {
	case v.pre == w.pre:
		return 0
	case v.pre == "":
		return 1
	case w.pre == "":
		return -1
	}
	return slices.CompareFunc(strings.Split(v.pre, "."), strings.Split(w.pre, "."), compareIdentifiers)
}

// significant returns the segments without trailing zeros.
func (v Version) significant() []int64 {
	n := len(v.segments)
	for n > 0 && v.segments[n-1] == 0 {
		n--
	}
	return v.segments[:n]
}

func compareIdentifiers(a, b string) int {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB == nil:
		return cmp.Compare(x, y)
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return strings.Compare(a, b)
}
