// Package hint is for errors whose remedy is known, and for what a misspelt name was meant to be.
package hint

import "errors"

type hinted struct {
	error
	hints []string
}

func (h *hinted) Unwrap() error { return h.error }

// With adds to err what to do about it, one line for each hint.
func With(err error, hints ...string) error { return &hinted{err, hints} }

// Of returns the hints that were added to err last.
func Of(err error) []string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hints
	}
	return nil
}
