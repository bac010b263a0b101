package egress

import "fmt"

// Secret is a text that is never shown: however it is printed, logged or
// encoded, it reads "[redacted]". Reveal is the only way to its content.
type Secret struct {
	text *string // a pointer, so that not even fmt's look into unexported fields shows it
}

const redacted = "[redacted]"

// NewSecret hides text. The zero Secret hides the empty text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal is the text itself: for the wire, never for a person.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether there is nothing to hide.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// String is "[redacted]".
func (s Secret) String() string { return redacted }

// GoString is "[redacted]".
func (s Secret) GoString() string { return redacted }

// Format writes "[redacted]" for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalText is "[redacted]".
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON is "[redacted]", as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// UnmarshalText hides text.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}
