package config

import "strings"

// Error is everything that is wrong with a configuration, one error for each mistake.
// To try again changes nothing.
type Error []error

func (e Error) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "; ")
}

// Unwrap returns the mistakes.
func (e Error) Unwrap() []error { return e }
