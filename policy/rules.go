package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// Rule allows or denies versions of modules. It has exactly one of Allow, Deny and Locked.
type Rule struct {
	Place string // position in its file, for people: "policy.yaml:12"

	Allow  Pattern
	Deny   Pattern
	Locked []Locked // the versions of an allow_locked; not nil there, and may be empty
	// LockFiles are the names of the lock files of an allow_locked, as written in the configuration. * matches any
	// characters.
	LockFiles []string `json:",omitempty"`

	// Versions follows [modproxy.Constraint.Allows] in a rule that allows, and [modproxy.Constraint.Covers] in a rule
	// that denies.
	Versions modproxy.Constraint `json:",omitzero"`
	Groups   []string            // the groups that the rule applies to; empty for all clients
	MinAge   time.Duration       // allow only: how long a version must have been listed
	Approval bool                // allow only: an operator approves each version
	Reason   string              // deny only: the reason for users
}

// Locked is a version that is allowed with one content.
type Locked struct {
	modproxy.Ref
	Sum modproxy.Sum
}

// Config is the input of [Compile]. The zero Config allows everything.
type Config struct {
	DefaultDeny bool   // versions that no rule allows are denied
	Audit       bool   // only reserved namespaces are refused; all other refusals are observed without effect
	Contact     string // named in every refusal
	ListDenied  bool   // a [Registry] with ListDenied lists denied versions
	FirstAllow  bool   // a version is old enough if it was listed when its module was first seen, and has no date
	Reserved    []Reserve
	Rules       []Rule
}

// Reserve reserves the namespaces that match a glob for some hosts. On every other host, they are refused.
type Reserve struct {
	Place     string   // position in its file, for people
	Namespace string   // * matches any characters
	Hosts     []string // normalised
	Own       string   // the one of Hosts that refusals name, because clients may know it: that of own modules; may be empty
}

// Rules are compiled rules. They are immutable and safe for concurrent use.
type Rules struct {
	Config
	index   node[*Rule]
	locked  map[modproxy.Ref][]lockedBy // by folded address
	trivial bool                        // everything is allowed

	lockedVersions map[modproxy.Address][]lockedVersion // by folded module
}

type lockedBy struct {
	sum  modproxy.Sum
	rule *Rule
}

type lockedVersion struct {
	version string
	rule    *Rule
}

// Compile checks rules and builds their index. It joins all errors; each names the position of its rule.
func Compile(c Config) (*Rules, error) {
	r := &Rules{Config: c, locked: map[modproxy.Ref][]lockedBy{}, lockedVersions: map[modproxy.Address][]lockedVersion{}}
	r.Rules = slices.Clone(c.Rules)
	var errs []error
	for i := range r.Rules {
		rule := &r.Rules[i]
		if err := rule.check(c.DefaultDeny); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", rule.Place, err))
			continue
		}
		if rule.Locked != nil {
			for _, l := range rule.Locked {
				key := fold(l.Ref)
				r.locked[key] = append(r.locked[key], lockedBy{l.Sum, rule})
				r.lockedVersions[key.Address] = append(r.lockedVersions[key.Address], lockedVersion{l.Version, rule})
				key = key.At("")
				r.locked[key] = append(r.locked[key], lockedBy{rule: rule}) // the entry for the module: rules under which some version is allowed
			}
			continue
		}
		pattern := rule.pattern()
		r.index.add(pattern.segments[:], rule)
	}
	for _, reserve := range c.Reserved {
		if err := checkReserve(reserve); err != nil {
			errs = append(errs, err)
		}
	}
	r.trivial = !c.DefaultDeny && len(c.Rules) == 0 && len(c.Reserved) == 0
	return r, errors.Join(errs...)
}

// pattern returns the pattern of the rule, or the zero Pattern for a rule about lock files.
func (r *Rule) pattern() Pattern {
	if r.Deny.IsZero() {
		return r.Allow
	}
	return r.Deny
}

// check returns an error if the rule is not valid.
func (r *Rule) check(defaultDeny bool) error {
	kinds := 0
	for _, has := range []bool{!r.Allow.IsZero(), !r.Deny.IsZero(), r.Locked != nil} {
		if has {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return errors.New("want exactly one of allow, deny and allow_locked")
	case r.Deny.IsZero() && !defaultDeny:
		return errors.New(`an allow rule has no effect if everything is allowed: set "default: deny", with "mode: audit" to try it`)
	case r.Deny.IsZero() && r.Reason != "":
		return errors.New("reason is for deny rules only")
	case r.Allow.IsZero() && (r.MinAge != 0 || r.Approval):
		return errors.New("min_age and approval are for allow rules only")
	case r.Locked != nil && r.Versions.String() != "":
		return errors.New("versions is for allow and deny rules only: a lock file lists the versions")
	case r.MinAge < 0:
		return errors.New("min_age: want a positive duration")
	}
	return nil
}

// reserved returns the reserve that keeps requests for a namespace from a host, or nil.
func (r *Rules) reserved(host, namespace string) *Reserve {
	return r.reserving(host, func(reserved string) bool { return MatchName(reserved, namespace) })
}

// maxEscaped is how many times a text may be percent-encoded. A text that is encoded more often counts as one that
// names every reserved namespace.
const maxEscaped = 8

// reservedIn returns the reserve that keeps a text from a host because the text names its namespace, or nil. A text
// names a namespace if it contains the name, compared by letters and digits only: "acme platform" names acme-platform.
// It also names a namespace if it contains all words of the name in any order, such as "platform OR acme".
// Percent-encoding does not hide a name.
func (r *Rules) reservedIn(host, text string) *Reserve {
	if len(r.Reserved) == 0 {
		return nil
	}
	for range maxEscaped {
		joined, words := plain(text), wordsOf(text)
		reserve := r.reserving(host, func(reserved string) bool {
			return MatchName("*"+plain(reserved)+"*", joined) || namedBy(words, reserved)
		})
		decoded := unescape(text)
		if reserve != nil || decoded == text {
			return reserve
		}
		text = decoded
	}
	return r.reserving(host, func(string) bool { return true })
}

// wordsOf returns the words of s. Characters other than letters, digits and stars separate words.
func wordsOf(s string) []string {
	return strings.FieldsFunc(norm.NFKD.String(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '*' && !unicode.IsMark(r)
	})
}

// namedBy reports whether words contain all words of a reserved name that has several words.
func namedBy(words []string, reserved string) bool {
	parts := slices.DeleteFunc(wordsOf(reserved), func(part string) bool { return strings.Trim(part, "*") == "" })
	return len(parts) > 1 && !slices.ContainsFunc(parts, func(part string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return MatchName(part, plain(word)) })
	})
}

// unescape decodes each percent-encoded byte of s once. Everything else stays.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if b, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out.WriteByte(byte(b))
				i += 2
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// plain returns the letters, digits and stars of s. A wide, bold or accented letter becomes the plain letter.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '*' {
			return r
		}
		return -1
	}, norm.NFKD.String(s))
}

// reserving returns the first reserve that matches accepts and that excludes a host, or nil.
func (r *Rules) reserving(host string, matches func(reserved string) bool) *Reserve {
	for i, reserve := range r.Reserved {
		if matches(reserve.Namespace) && !slices.Contains(reserve.Hosts, strings.ToLower(host)) {
			return &r.Reserved[i]
		}
	}
	return nil
}

// verdict returns the verdict about a module that r keeps from its host.
func (r *Reserve) verdict() Verdict { return Verdict{Outcome: Reserved, Own: r.Own} }

func checkReserve(r Reserve) error {
	if !isGlob(r.Namespace, "-_*") {
		return fmt.Errorf("%s: %w: reserved namespace %.80q: want letters, digits, - and _, and * for anything", r.Place, modproxy.ErrInvalid, r.Namespace)
	}
	for _, h := range r.Hosts {
		if again, err := hostname.Parse(h); err != nil || again != h {
			return fmt.Errorf("%s: %w: reserved for host %.80q", r.Place, modproxy.ErrInvalid, h)
		}
	}
	return nil
}

// fold returns the canonical spelling of a version for verdicts: names in lower case, and for a variant the version
// that it was derived from.
func fold(v modproxy.Ref) modproxy.Ref {
	return v.Base().Folded()
}
