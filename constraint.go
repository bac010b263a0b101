package modproxy

import (
	"fmt"
	"slices"
	"strings"
)

// Constraint is a version constraint in the clients' syntax, such as ">= 5.0.0, != 5.1.2". Commas separate its terms. A
// version matches if all terms match. The zero Constraint matches every version.
//
// Its grammar and its matches are those of the clients (hashicorp/go-version constraint.go, and module_install.go of
// Terraform and OpenTofu).
type Constraint struct {
	text  string
	terms []term
}

// term compares a version with one given version.
type term struct {
	op    string
	with  Version
	given int // number of segments of the version as written
}

// operators are sorted so that no operator follows its own prefix.
var operators = []string{"<=", ">=", "!=", "~>", "<", ">", "="}

// space is the white space of go-version.
const space = "\t\n\f\r "

// ParseConstraint parses a constraint. An empty text is an error, as for the clients. Errors wrap [ErrInvalid].
func ParseConstraint(s string) (Constraint, error) {
	if len(s) > 16*maxVersion {
		return Constraint{}, fmt.Errorf("%w: version constraint of %d bytes", ErrInvalid, len(s))
	}
	c := Constraint{text: s}
	for part := range strings.SplitSeq(s, ",") {
		part = strings.Trim(part, space)
		t := term{op: "="}
		for _, op := range operators {
			if rest, ok := strings.CutPrefix(part, op); ok {
				t.op, part = op, strings.TrimLeft(rest, space)
				break
			}
		}
		var err error
		if t.with, err = ParseVersion(part); err != nil {
			return Constraint{}, fmt.Errorf("%w: version constraint %.80q: want terms such as >= 1.2.0 or ~> 1.4, separated by commas", ErrInvalid, s)
		}
		numbers := strings.TrimPrefix(part, "v")
		numbers = numbers[:len(numbers)-len(strings.TrimLeft(numbers, "0123456789."))]
		t.given = 1 + strings.Count(strings.TrimRight(numbers, "."), ".")
		c.terms = append(c.terms, t)
	}
	return c, nil
}

// String returns the constraint as it was written.
func (c Constraint) String() string { return c.text }

// Canonical returns the canonical spelling of the constraint. Constraints with equal terms in the same order have the same
// spelling. It leaves out text that makes no difference when versions are compared.
func (c Constraint) Canonical() string { return c.canonical("") }

// CanonicalAllow is Canonical for [Constraint.Allows]: terms with = include build metadata.
func (c Constraint) CanonicalAllow() string { return c.canonical("=") }

// CanonicalDeny is Canonical for [Constraint.Covers]: terms with != include build metadata.
func (c Constraint) CanonicalDeny() string { return c.canonical("!=") }

// canonical returns the canonical text. Terms with the operator builds include their build metadata.
func (c Constraint) canonical(builds string) string {
	var terms []string
	for _, t := range c.terms {
		with := t.with
		if t.op != builds {
			with.metadata = ""
		}
		if t.op == "~>" { // the number of segments makes a difference
			with.segments = with.segments[:t.given]
		} else {
			with.segments = with.segments[:max(3, len(with.significant()))]
		}
		terms = append(terms, strings.TrimPrefix(t.op+" "+with.String(), "= "))
	}
	return strings.Join(terms, ", ")
}

// MarshalText implements [encoding.TextMarshaler].
func (c Constraint) MarshalText() ([]byte, error) { return []byte(c.text), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. Its errors are those of [ParseConstraint].
func (c *Constraint) UnmarshalText(text []byte) (err error) {
	*c, err = ParseConstraint(string(text))
	return err
}

// Selects reports whether a client with this constraint may choose v. A client chooses a pre-release only if the constraint
// is exactly that version.
func (c Constraint) Selects(v Version) bool {
	if len(c.terms) > 0 && v.Prerelease() {
		return len(c.terms) == 1 && c.terms[0].op == "=" && v.Compare(c.terms[0].with) == 0
	}
	return !slices.ContainsFunc(c.terms, func(t term) bool {
		return t.op == "~>" && t.with.Prerelease() || !t.holds(v)
	})
}

// Allows is Selects for rules that allow versions. Builds of a version differ in their build metadata only. A term with =
// matches only the build that it names, because other builds may be published later, with other content.
func (c Constraint) Allows(v Version) bool {
	return c.Selects(v) && !slices.ContainsFunc(c.terms, func(t term) bool { return t.op == "=" && t.with.metadata != v.metadata })
}

// Covers reports whether v is in the range of the constraint. A pre-release is also covered if its release is in the range.
// Use Covers for rules that deny: it covers every version that a client may choose, every build of these versions, and every
// pre-release at the edges of the range. A term with != excludes only the build that it names.
func (c Constraint) Covers(v Version) bool {
	all := func(v Version) bool {
		return !slices.ContainsFunc(c.terms, func(t term) bool {
			return !t.holds(v) && (t.op != "!=" || t.with.metadata == v.metadata)
		})
	}
	return all(v) || v.Prerelease() && all(v.Release())
}

// holds compares v with the version of the term by precedence.
func (t term) holds(v Version) bool {
	c := v.Compare(t.with)
	switch t.op {
	case "=":
		return c == 0
	case "!=":
		return c != 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	}
	return c >= 0 && t.pessimistic(v)
}

// pessimistic reports whether v has the segments that ~> fixes: all written segments except the last.
func (t term) pessimistic(v Version) bool {
	n := len(t.with.segments)
	return n <= len(v.segments) && slices.Equal(t.with.segments[:t.given-1], v.segments[:t.given-1]) &&
		t.with.segments[n-1] <= v.segments[n-1]
}

// IsZero reports whether c is empty and therefore matches every version.
func (c Constraint) IsZero() bool { return c.text == "" }
