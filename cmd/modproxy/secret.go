package main

import "fmt"

const redacted = "[redacted]"

// Secret is a text that nobody may read by accident: every way to print or to
// encode it gives [redacted], or nothing when it is empty.
type Secret string

// Reveal is the text itself, for the one place that sends it.
func (s Secret) Reveal() string { return string(s) }

// String implements [fmt.Stringer].
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format implements [fmt.Formatter]: no verb and no flag shows the text.
func (s Secret) Format(f fmt.State, verb rune) { fmt.Fprint(f, s.String()) }

// MarshalText implements [encoding.TextMarshaler], for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
