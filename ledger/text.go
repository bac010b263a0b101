package ledger

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/module"

	"github.com/modproxy/modproxy"
)

const (
	driftPrefix = "drift "

	// Limits of recorded values, in bytes.
	maxText   = 32 << 10
	maxURL    = 16 << 10
	maxCommit = 128
	MaxReason = 1024
	maxSubdir = 1024
)

// The names of the lines after the first, in their order.
var (
	recordLines = []string{"time", "source", "commit", "mirror", "subdir", "reason", "zips", "keys", "hashes", "others"}
	driftLines  = []string{"recorded", "offered", "subdir", "time", "source", "commit", "mirror", "zips", "keys", "hashes", "others"}
)

// FormatRecord returns the text of a record in the log. The text is also what a sumdb client receives. The client looks at the
// first line, which is a line of go.sum. Other lines begin with a word that is not a module path. Empty values are left out:
//
//	registry.example.com/acme/vpc/aws v1.2.3 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
//	time 2026-03-04T05:06:07Z
//	source https://git.example.com/acme/vpc.git
//	commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904
//	subdir modules/vpc
//	reason the maintainers moved the tag and said so
//
// The [modproxy.ProviderFacts] of a provider follow, in lines that begin with zips, keys, hashes and others. Errors are
// [modproxy.ErrInvalid]. A source with user information or a query is such an error: a log cannot forget a secret. A version that was
// downloaded from a mirror of its source has, after commit, a line with the URL of the mirror. Versions of modproxy without mirrors do
// not read such a log:
//
//	mirror https://git.corp.example/mirrors/acme/vpc.git
func FormatRecord(r Record) ([]byte, error) {
	key, err := Key(r.Ref)
	if err := cmp.Or(err, check(r.Sum, r.Subdir, r.Time, r.Source), checkFacts(r.Ref, r.ProviderFacts)); err != nil {
		return nil, err
	}
	if len(r.Reason) > MaxReason || !isLine(r.Reason) {
		return nil, fmt.Errorf("%w: reason: want one line of at most %d bytes", modproxy.ErrInvalid, MaxReason)
	}
	return formatText(key.Path+" "+key.Version+" "+string(r.Sum), recordLines,
		r.Time.UTC().Format(time.RFC3339Nano), r.Source.URL, r.Source.Commit, r.Source.Mirror, r.Subdir, r.Reason,
		string(r.Zips), string(r.Keys), string(r.Hashes), string(r.Others))
}

// FormatDrift returns the text of an observation in the log. A sumdb client takes none of its lines for a line of go.sum:
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
	key, err := Key(d.Ref)
	_, errOffered := d.Offered.Hash()
	if err := cmp.Or(err, errOffered, check(d.Recorded, d.Subdir, d.Time, d.Source), checkFacts(d.Ref, d.ProviderFacts)); err != nil {
		return nil, err
	}
	if d.Recorded == d.Offered && d.Subdir == "" {
		return nil, fmt.Errorf("%w: the offered content is the recorded one", modproxy.ErrInvalid)
	}
	return formatText(driftPrefix+key.Path+" "+key.Version, driftLines,
		string(d.Recorded), string(d.Offered), d.Subdir, d.Time.UTC().Format(time.RFC3339Nano), d.Source.URL, d.Source.Commit, d.Source.Mirror,
		string(d.Zips), string(d.Keys), string(d.Hashes), string(d.Others))
}

// ParseRecord is the inverse of [FormatRecord]; its error is [modproxy.ErrInvalid].
func ParseRecord(text []byte) (Record, error) {
	first, value := parseText(text, recordLines)
	v, err := ParseKey(module.Version{Path: first[0], Version: first[1]})
	return whole(text, FormatRecord, err, Record{
		Ref: v, Sum: modproxy.Sum(first[2]), Time: parseTime(value[0]),
		Source: modproxy.Source{URL: value[1], Commit: value[2], Mirror: value[3]}, Subdir: value[4], Reason: value[5],
		ProviderFacts: parseFacts(value[6:]),
	})
}

// ParseDrift is the inverse of [FormatDrift]; its error is [modproxy.ErrInvalid].
func ParseDrift(text []byte) (Drift, error) {
	first, value := parseText(text, driftLines)
	v, err := ParseKey(module.Version{Path: first[1], Version: first[2]})
	return whole(text, FormatDrift, err, Drift{
		Ref: v, Recorded: modproxy.Sum(value[0]), Offered: modproxy.Sum(value[1]), Subdir: value[2],
		Time: parseTime(value[3]), Source: modproxy.Source{URL: value[4], Commit: value[5], Mirror: value[6]}, ProviderFacts: parseFacts(value[7:]),
	})
}

// whole returns value, unless err is not nil or format does not reproduce text.
func whole[T any](text []byte, format func(T) ([]byte, error), err error, value T) (T, error) {
	if again, errFormat := format(value); err != nil || errFormat != nil || !bytes.Equal(again, text) {
		return *new(T), fmt.Errorf("%w: record %.200q", modproxy.ErrInvalid, text)
	}
	return value, nil
}

// kindOf returns the kind of a text. An acceptance counts as firstRecord.
func kindOf(text []byte) kind {
	switch {
	case bytes.HasPrefix(text, []byte(driftPrefix)):
		return drift
	case bytes.HasPrefix(text, []byte(decisionPrefix)):
		return decision
	case bytes.HasPrefix(text, []byte(importPrefix)):
		return imported
	case bytes.HasPrefix(text, []byte(ownPrefix)):
		return own
	}
	return firstRecord
}

// formatText returns the first line, followed by a line "name value" for each value that is not empty.
func formatText(first string, names []string, values ...string) ([]byte, error) {
	text := append(append(make([]byte, 0, 512), first...), '\n')
	for i, value := range values {
		if value != "" {
			text = append(append(append(append(text, names[i]...), ' '), value...), '\n')
		}
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("%w: a record of %d bytes, more than the allowed %d", modproxy.ErrInvalid, len(text), maxText)
	}
	return text, nil
}

// parseText returns the words of the first line of a text, and the values of the named lines. The value of a missing line is
// empty. It ignores unknown lines; whole refuses them.
func parseText(text []byte, names []string) (first [3]string, values []string) {
	line, rest, _ := strings.Cut(string(text), "\n")
	copy(first[:], strings.SplitN(line, " ", 3))
	values = make([]string, len(names))
	for i, name := range names {
		if behind, ok := strings.CutPrefix(rest, name+" "); ok {
			values[i], rest, _ = strings.Cut(behind, "\n")
		}
	}
	return first, values
}

func parseTime(s string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, s) // whole refuses the zero time
	return t.UTC()
}

// isLine reports whether s is safe to show on a line of its own.
func isLine(s string) bool {
	unfit := func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }
	return utf8.ValidString(s) && strings.IndexFunc(s, unfit) < 0 && strings.TrimSpace(s) == s
}

// check returns an error for values that cannot be recorded. Its errors do not show a refused URL, which may contain a secret.
// A subdir has the rules of that of a [modproxy.Location].
func check(sum modproxy.Sum, subdir string, t time.Time, source modproxy.Source) error {
	if _, err := sum.Hash(); err != nil {
		return err
	}
	if err := checkTime(t); err != nil {
		return err
	}
	if subdir != "" && (!fs.ValidPath(subdir) || len(subdir) > maxSubdir || !isLine(subdir)) {
		return fmt.Errorf("%w: subdirectory %.80q", modproxy.ErrInvalid, subdir)
	}
	for _, s := range []string{source.URL, source.Mirror} {
		u, err := url.Parse(s)
		if err != nil || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || len(s) > maxURL || !isLine(s) {
			return fmt.Errorf("%w: source: want a URL without user information, query and fragment", modproxy.ErrInvalid)
		}
	}
	if source.Mirror != "" && source.URL == "" {
		return fmt.Errorf("%w: a mirror without its source", modproxy.ErrInvalid)
	}
	if len(source.Commit) > maxCommit || strings.Trim(source.Commit, "0123456789abcdef") != "" {
		return fmt.Errorf("%w: commit %.80q: want lower-case hexadecimal digits", modproxy.ErrInvalid, source.Commit)
	}
	return nil
}

func parseFacts(value []string) modproxy.ProviderFacts {
	return modproxy.ProviderFacts{Zips: modproxy.Zips(value[0]), Keys: modproxy.Keys(value[1]), Hashes: modproxy.Hashes(value[2]), Others: modproxy.Digests(value[3])}
}

// checkFacts returns an error for facts that v must not have, and for missing ones. A release without archives, or a record of
// keys without keys, would compare equal with everything.
func checkFacts(v modproxy.Ref, f modproxy.ProviderFacts) error {
	_, errZips := f.Zips.All()
	_, errOthers := f.Others.All()
	err := cmp.Or(errZips, f.Keys.Check(), f.Hashes.Check(), errOthers)
	has := [4]bool{f.Zips != "", f.Keys != "", f.Hashes != "", f.Others != ""}
	if err != nil {
		return err
	}
	fits, why := false, ""
	switch v.Content() {
	case modproxy.ModuleContent:
		fits, why = has == [4]bool{}, " is not a provider"
	case modproxy.KeysContent:
		fits, why = has == [4]bool{1: true}, ": want keys, and nothing else"
	case modproxy.ArchiveContent:
		fits, why = !has[0] && !has[1] && !has[3], ": the archive for one platform has hashes, and nothing else"
	case modproxy.ReleaseContent:
		fits, why = has[0] && !has[2], ": a release has zips, and no hashes"
	}
	if !fits {
		return fmt.Errorf("%w: %s%s", modproxy.ErrInvalid, v, why)
	}
	return nil
}

func checkTime(t time.Time) error {
	if t = t.UTC(); t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return fmt.Errorf("%w: time %v", modproxy.ErrInvalid, t)
	}
	return nil
}
