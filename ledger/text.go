package ledger

import (
	"bytes"
	"cmp"
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

const driftWord = "drift"

// FormatRecord returns a record as it is in the log, and as a sumdb client is shown it. The first line is one of go.sum
// and all that the client looks at; the others begin with a word that is no module path. Lines with an empty value are
// left out:
//
//	registry.example.com/acme/vpc/aws v1.2.3 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
//	time 2026-03-04T05:06:07Z
//	source https://git.example.com/acme/vpc.git
//	commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904
//	subdir modules/vpc
//	reason the maintainers moved the tag and said so
//
// Errors are [modproxy.ErrInvalid]. A source with user information or a query is one: nothing can be removed from a log.
func FormatRecord(r Record) ([]byte, error) {
	key, err := Key(r.ModuleVersion)
	if err != nil {
		return nil, err
	}
	return formatRecord(r, key)
}

func formatRecord(r Record, key module.Version) ([]byte, error) {
	if err := cmp.Or(checkSum(r.Sum), checkReason(r.Reason), checkSubdir(r.Subdir), checkTime(r.Time), checkSource(r.Source)); err != nil {
		return nil, err
	}
	return formatLines(line{key.Path, key.Version + " " + string(r.Sum)}, timeLine(r.Time),
		line{"source", r.Source.URL}, line{"commit", r.Source.Commit}, line{"subdir", r.Subdir}, line{"reason", r.Reason})
}

// FormatDrift returns an observation as it is in the log. A sumdb client takes none of its lines for one of go.sum. Lines
// with an empty value are left out:
//
//	drift registry.example.com/acme/vpc/aws v1.2.3
//	recorded h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
//	offered h1:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=
//	subdir modules/vpc
//	time 2026-04-05T06:07:08Z
//	source https://git.example.com/acme/vpc.git
//	commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904
//
// Errors are those of [FormatRecord].
func FormatDrift(d Drift) ([]byte, error) {
	key, err := Key(d.ModuleVersion)
	if err := cmp.Or(err, checkSum(d.Recorded), checkSum(d.Offered), checkSubdir(d.Subdir), checkTime(d.Time), checkSource(d.Source)); err != nil {
		return nil, err
	}
	if d.Recorded == d.Offered && d.Subdir == "" {
		return nil, fmt.Errorf("%w: what is offered is what is recorded", modproxy.ErrInvalid)
	}
	return formatLines(line{driftWord, key.Path + " " + key.Version}, line{"recorded", string(d.Recorded)}, line{"offered", string(d.Offered)},
		line{"subdir", d.Subdir}, timeLine(d.Time), line{"source", d.Source.URL}, line{"commit", d.Source.Commit})
}

// ParseRecord is the inverse of [FormatRecord]; its error is [modproxy.ErrInvalid].
func ParseRecord(text []byte) (Record, error) {
	lines := lines(text)
	first := strings.SplitN(lines.whole(), " ", 3)
	if len(first) != 3 {
		return Record{}, badText(text)
	}
	key := module.Version{Path: first[0], Version: first[1]}
	v, err := ParseKey(key)
	if err != nil {
		return Record{}, badText(text)
	}
	r := Record{ModuleVersion: v, Sum: modproxy.Sum(first[2]), Time: lines.time()}
	r.Source = modproxy.Source{URL: lines.value("source"), Commit: lines.value("commit")}
	r.Subdir, r.Reason = lines.value("subdir"), lines.value("reason")
	if again, err := formatRecord(r, key); err != nil || !bytes.Equal(again, text) {
		return Record{}, badText(text)
	}
	return r, nil
}

// ParseDrift is the inverse of [FormatDrift]; its error is [modproxy.ErrInvalid].
func ParseDrift(text []byte) (Drift, error) {
	lines := lines(text)
	path, version, _ := strings.Cut(lines.value(driftWord), " ")
	v, err := ParseKey(module.Version{Path: path, Version: version})
	if err != nil {
		return Drift{}, badText(text)
	}
	d := Drift{ModuleVersion: v, Recorded: modproxy.Sum(lines.value("recorded")), Offered: modproxy.Sum(lines.value("offered"))}
	d.Subdir, d.Time = lines.value("subdir"), lines.time()
	d.Source = modproxy.Source{URL: lines.value("source"), Commit: lines.value("commit")}
	if again, err := FormatDrift(d); err != nil || !bytes.Equal(again, text) {
		return Drift{}, badText(text)
	}
	return d, nil
}

func isDrift(text []byte) bool { return bytes.HasPrefix(text, []byte(driftWord+" ")) }

func badText(text []byte) error {
	return fmt.Errorf("%w: record %.200q", modproxy.ErrInvalid, text)
}

// line is a line of a text: a name, a blank and a value.
type line struct{ name, value string }

func timeLine(t time.Time) line { return line{"time", t.UTC().Format(time.RFC3339Nano)} }

func formatLines(list ...line) ([]byte, error) {
	text := make([]byte, 0, 512)
	for _, l := range list {
		if l.value != "" {
			text = append(append(append(append(text, l.name...), ' '), l.value...), '\n')
		}
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("%w: a record of %d bytes, more than the %d that are allowed", modproxy.ErrInvalid, len(text), maxText)
	}
	return text, nil
}

// lines is what is left to read of a text.
type lines string

// whole returns the next line.
func (l *lines) whole() string {
	first, rest, _ := strings.Cut(string(*l), "\n")
	*l = lines(rest)
	return first
}

// value returns the value of the next line if that has the name. If not, it is empty and the line stays.
func (l *lines) value(name string) string {
	if rest, ok := strings.CutPrefix(string(*l), name); !ok || !strings.HasPrefix(rest, " ") {
		return ""
	}
	return l.whole()[len(name)+1:]
}

// time returns the value of a [timeLine], and the zero time for anything else.
func (l *lines) time() time.Time {
	t, _ := time.Parse(time.RFC3339Nano, l.value("time"))
	return t.UTC()
}

// isLine reports whether s can stand on a line of its own wherever it is shown.
func isLine(s string) bool {
	unfit := func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }
	return utf8.ValidString(s) && strings.IndexFunc(s, unfit) < 0 && strings.TrimSpace(s) == s
}

func checkSum(s modproxy.Sum) error {
	_, err := s.Hash()
	return err
}

func checkReason(s string) error {
	if len(s) > maxReason || !isLine(s) {
		return fmt.Errorf("%w: reason: want one line of at most %d bytes", modproxy.ErrInvalid, maxReason)
	}
	return nil
}

func checkTime(t time.Time) error {
	if t = t.UTC(); t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return fmt.Errorf("%w: time %v", modproxy.ErrInvalid, t)
	}
	return nil
}

// checkSubdir allows what a [modproxy.Location] may have as its Subdir.
func checkSubdir(s string) error {
	if s != "" && (s != path.Clean(s) || s[0] == '/' || s == ".." || strings.HasPrefix(s, "../") || len(s) > maxSubdir || !isLine(s)) {
		return fmt.Errorf("%w: subdirectory %.80q", modproxy.ErrInvalid, s)
	}
	return nil
}

// checkSource does not show a URL that it refuses: it may contain a secret.
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
