package egress

import "fmt"

// Secret is a text that is never shown: however it is printed, logged or
// encoded, it reads "[redacted]". Reveal is the only way to its content.
type Secret struct{ text string }

const redacted = "[redacted]"

// NewSecret hides text. The zero Secret hides the empty text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal is the text itself: for the wire, never for a person.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether there is nothing to hide.
func (s Secret) IsZero() bool { return s.text == "" }

func (s Secret) String() string                   { return redacted }
func (s Secret) GoString() string                 { return redacted }
func (s Secret) Format(f fmt.State, _ rune)       { fmt.Fprint(f, redacted) }
func (s Secret) MarshalText() ([]byte, error)     { return []byte(redacted), nil }
func (s Secret) MarshalJSON() ([]byte, error)     { return []byte(`"` + redacted + `"`), nil }
func (s *Secret) UnmarshalText(text []byte) error { s.text = string(text); return nil }
