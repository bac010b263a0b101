package ledger

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/module"

	"github.com/modproxy/modproxy"
)

// Bounds of what is written down, in bytes.
const (
	maxText   = 32 << 10
	maxURL    = 16 << 10
	maxCommit = 128
	maxReason = 1024
	maxSubdir = 1024
)

const driftPrefix = "drift "

// Text is the record as it is in the log, which is also what a sumdb client is
// shown. The first line is one of go.sum and all that the client looks at; the
// others begin with a word that is no module path, and are left out when they
// would be empty, but for the time:
//
//	registry.example.com/acme/vpc/aws v1.2.3 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
//	time 2026-03-04T05:06:07Z
//	source https://git.example.com/acme/vpc.git
//	commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904
//	subdir modules/vpc
//	reason the maintainers moved the tag and said so
//
// Errors are [modproxy.ErrInvalid]. A source with user information or a query is
// one: what is in a log cannot be taken out of it again.
func Text(r Record) ([]byte, error) {
	key, err := Key(r.Module, r.Version)
	if err != nil {
		return nil, err
	}
	if _, err := parseSum(r.Sum); err != nil {
		return nil, err
	}
	if len(r.Reason) > maxReason || !isLine(r.Reason) {
		return nil, fmt.Errorf("%w: reason: want one line of at most %d bytes", modproxy.ErrInvalid, maxReason)
	}
	if err := checkSubdir(r.Subdir); err != nil {
		return nil, err
	}
	return formatText(key.Path+" "+key.Version+" "+string(r.Sum), r.Time, r.Source, line{"subdir", r.Subdir}, line{"reason", r.Reason})
}

// Text is the observation as it is in the log: the lines of [Record.Text] behind
// some of its own, none of which a sumdb client takes for one of go.sum. The line
// subdir is left out when it would be empty.
//
//	drift registry.example.com/acme/vpc/aws v1.2.3
//	recorded h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
//	offered h1:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=
//	subdir modules/vpc
//	time 2026-04-05T06:07:08Z
func (d Drift) Text() ([]byte, error) {
	key, err := Key(d.Module, d.Version)
	if err != nil {
		return nil, err
	}
	for _, sum := range []modproxy.Sum{d.Recorded, d.Offered} {
		if _, err := parseSum(sum); err != nil {
			return nil, err
		}
	}
	if d.Recorded == d.Offered && d.Subdir == "" {
		return nil, fmt.Errorf("%w: what is offered is what is recorded", modproxy.ErrInvalid)
	}
	if err := checkSubdir(d.Subdir); err != nil {
		return nil, err
	}
	first := fmt.Sprintf(driftPrefix+"%s %s\nrecorded %s\noffered %s", key.Path, key.Version, d.Recorded, d.Offered)
	if d.Subdir != "" {
		first += "\nsubdir " + d.Subdir
	}
	return formatText(first, d.Time, d.Source)
}

// ParseRecord is the inverse of [Record.Text]; its error is [modproxy.ErrInvalid].
func ParseRecord(text []byte) (Record, error) {
	first, rest, _ := strings.Cut(string(text), "\n")
	words := strings.Split(first, " ")
	if len(words) != 3 {
		return Record{}, badText(text)
	}
	m, version, err := ParseKey(module.Version{Path: words[0], Version: words[1]})
	if err != nil {
		return Record{}, badText(text)
	}
	r := Record{ModuleVersion: modproxy.ModuleVersion{Module: m, Version: version}, Sum: modproxy.Sum(words[2])}
	r.Time, r.Source, rest = parseCommon(rest)
	r.Subdir, rest = cutLine(rest, "subdir")
	r.Reason, _ = cutLine(rest, "reason")
	if again, err := Text(r); err != nil || !bytes.Equal(again, text) {
		return Record{}, badText(text)
	}
	return r, nil
}

// ParseDrift is the inverse of [Drift.Text]; its error is [modproxy.ErrInvalid].
func ParseDrift(text []byte) (Drift, error) {
	key, rest := cutLine(string(text), "drift")
	path, v, _ := strings.Cut(key, " ")
	m, version, err := ParseKey(module.Version{Path: path, Version: v})
	if err != nil {
		return Drift{}, badText(text)
	}
	d := Drift{Module: m, Version: version}
	recorded, rest := cutLine(rest, "recorded")
	offered, rest := cutLine(rest, "offered")
	d.Subdir, rest = cutLine(rest, "subdir")
	d.Recorded, d.Offered = modproxy.Sum(recorded), modproxy.Sum(offered)
	d.Time, d.Source, _ = parseCommon(rest)
	if again, err := d.Text(); err != nil || !bytes.Equal(again, text) {
		return Drift{}, badText(text)
	}
	return d, nil
}

func badText(text []byte) error {
	return fmt.Errorf("%w: record %.200q", modproxy.ErrInvalid, text)
}

type line struct{ name, value string }

// formatText writes first and the lines that all texts have, then more.
func formatText(first string, when time.Time, source modproxy.Source, more ...line) ([]byte, error) {
	when = when.UTC()
	if when.IsZero() || when.Year() < 1 || when.Year() > 9999 {
		return nil, fmt.Errorf("%w: time %v", modproxy.ErrInvalid, when)
	}
	if err := checkSource(source); err != nil {
		return nil, err
	}
	lines := append([]line{{"time", when.Format(time.RFC3339Nano)}, {"source", source.URL}, {"commit", source.Commit}}, more...)
	text := append([]byte(first), '\n')
	for _, l := range lines {
		if l.value != "" {
			text = append(append(append(append(text, l.name...), ' '), l.value...), '\n')
		}
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("%w: a record of %d bytes, more than the %d that are allowed", modproxy.ErrInvalid, len(text), maxText)
	}
	return text, nil
}

func parseCommon(s string) (when time.Time, source modproxy.Source, rest string) {
	written, rest := cutLine(s, "time")
	source.URL, rest = cutLine(rest, "source")
	source.Commit, rest = cutLine(rest, "commit")
	when, _ = time.Parse(time.RFC3339Nano, written) // a zero time is refused
	return when.UTC(), source, rest
}

// cutLine is the value of the first line of s, if it is called name, and what
// follows it.
func cutLine(s, name string) (value, rest string) {
	first, after, _ := strings.Cut(s, "\n")
	value, ok := strings.CutPrefix(first, name+" ")
	if !ok {
		return "", s
	}
	return value, after
}

// isLine tells whether s can stand on a line of its own, whatever shows it.
func isLine(s string) bool {
	unfit := func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }
	return utf8.ValidString(s) && strings.IndexFunc(s, unfit) < 0 && strings.TrimSpace(s) == s
}

// checkSubdir is about what a [modproxy.Location] may have as its Subdir.
func checkSubdir(s string) error {
	if s != "" && (s != path.Clean(s) || s[0] == '/' || s == ".." || strings.HasPrefix(s, "../") || len(s) > maxSubdir || !isLine(s)) {
		return fmt.Errorf("%w: subdirectory %.80q", modproxy.ErrInvalid, s)
	}
	return nil
}

// checkSource says nothing of the URL that it refuses: it may have a secret.
func checkSource(s modproxy.Source) error {
	u, err := url.Parse(s.URL)
	if err != nil || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || len(s.URL) > maxURL || !isLine(s.URL) {
		return fmt.Errorf("%w: source: want a URL without user information, query and fragment", modproxy.ErrInvalid)
	}
	if len(s.Commit) > maxCommit || strings.Trim(s.Commit, "0123456789abcdef") != "" {
		return fmt.Errorf("%w: commit %.80q: want lower-case hexadecimal digits", modproxy.ErrInvalid, s.Commit)
	}
	return nil
}

// parseSum is what a sum says, for comparing.
func parseSum(s modproxy.Sum) (sum [32]byte, err error) {
	encoded, ok := strings.CutPrefix(string(s), "h1:")
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil || len(raw) != len(sum) || len(encoded) != 44 {
		return sum, fmt.Errorf("%w: sum %.80q: want h1: and the base64 of 32 bytes", modproxy.ErrInvalid, s)
	}
	copy(sum[:], raw)
	return sum, nil
}

func formatSum(sum [32]byte) modproxy.Sum {
	return modproxy.Sum("h1:" + base64.StdEncoding.EncodeToString(sum[:]))
}
