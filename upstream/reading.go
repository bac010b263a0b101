package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
)

const (
	maxElements = 100_000 // of all lists in one document that describes modules
	maxSystems  = 100     // that it names, of each of which is found out whether a client may know of it
)

// reading reads one document that describes modules. A member of another type than it should have counts as one that is missing.
// Names with control characters, or longer than a line, count as missing, too; other texts lose theirs.
type reading struct {
	from *url.URL // the document
	left int      // elements of lists that may follow
	err  error    // that there are more
}

func newReading(from *url.URL) *reading { return &reading{from: from, left: maxElements} }

// object decodes text, good JSON or a whole document, into v, and reports whether it is an object.
func object(text []byte, v any) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	err := json.Unmarshal(text, v)
	_, mistyped := errors.AsType[*json.UnmarshalTypeError](err) // after which the rest was decoded all the same
	return err == nil || mistyped
}

// elements yields the elements of a list, or the members of an object with their names. What is neither has none.
func (r *reading) elements(text json.RawMessage) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		if len(text) == 0 {
			return
		}
		in := json.NewDecoder(bytes.NewReader(text))
		opening, _ := in.Token()
		if opening != json.Delim('[') && opening != json.Delim('{') {
			return
		}
		for in.More() {
			if r.left--; r.left < 0 {
				r.err = fmt.Errorf("%w: its lists have more than the %d elements that are allowed", modproxy.ErrInvalid, maxElements)
				return
			}
			name := ""
			if opening == json.Delim('{') {
				token, _ := in.Token()
				name, _ = token.(string)
			}
			var element json.RawMessage
			if in.Decode(&element) != nil || !yield(name, element) {
				return
			}
		}
	}
}

// webURL returns the http or https URL that s is, and nothing for all else. It is relative to base unless that is nil.
func webURL(base *url.URL, s string) string {
	u, err := url.Parse(clean.Line(s))
	if s == "" || err != nil {
		return ""
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Opaque != "" || u.User != nil {
		return ""
	}
	return u.String()
}

// date returns the time that s is by RFC 3339, which can be written in that way again; zero for what is none.
func date(s string) time.Time {
	at, err := time.Parse(time.RFC3339, s)
	if at = at.UTC(); err != nil || at.Year() < 1 || at.Year() > 9999 {
		return time.Time{}
	}
	return at
}

// canonical returns the canonical spelling of a version, or nothing if a registry cannot have it.
func canonical(s string) string {
	version, err := modproxy.CanonicalVersion(s)
	if err != nil || !(modproxy.Address{}).At(version).IsListed() {
		return ""
	}
	return version
}

// jsonText returns a value as JSON text, and nothing for null. A string that is JSON itself is that text, if may says so.
func jsonText(value json.RawMessage, may bool) string {
	var s *string
	if may && json.Unmarshal(value, &s) == nil && s != nil {
		if text := clean.Prose(*s); text == "" || json.Valid([]byte(text)) {
			return text
		}
	}
	var compact bytes.Buffer
	if len(value) == 0 || string(value) == "null" || json.Compact(&compact, value) != nil {
		return ""
	}
	return clean.Prose(compact.String())
}
