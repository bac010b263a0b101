package documents

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
	maxElements = 100_000 // of all lists in one document
	maxSystems  = 100     // that a document names; each one is checked against the client's rights
)

// reading reads one document.
type reading struct {
	from *url.URL // the URL of the document
	left int      // how many more elements of lists are allowed
	err  error    // set if there are more
}

func newReading(from *url.URL) *reading { return &reading{from: from, left: maxElements} }

// object decodes text into v, and reports whether text is an object. text is valid JSON or a whole document.
func object(text []byte, v any) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	err := json.Unmarshal(text, v)
	_, mistyped := errors.AsType[*json.UnmarshalTypeError](err) // the other members are decoded nevertheless
	return err == nil || mistyped
}

// elements yields the elements of a list, or the members of an object with their names. It yields nothing for other
// values.
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

// webURL returns s as an http or https URL, or an empty string if it is neither. s is relative to base unless base is
// nil.
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

// date parses a time in RFC 3339 form. The result can be formatted in the same form. It is zero if s is not such a
// time.
func date(s string) time.Time {
	at, err := time.Parse(time.RFC3339, s)
	if at = at.UTC(); err != nil || at.Year() < 1 || at.Year() > 9999 {
		return time.Time{}
	}
	return at
}

// canonical returns the canonical spelling of a version, or an empty string if a registry cannot list it.
func canonical(s string) string {
	version, err := modproxy.CanonicalVersion(s)
	if err != nil || !(modproxy.Address{}).At(version).IsListed() {
		return ""
	}
	return version
}

// jsonText returns a value as JSON text, and an empty string for null. If may is set, a string that contains JSON
// yields that JSON.
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
