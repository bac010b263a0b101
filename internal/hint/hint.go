// Package hint adds remedies to errors, and finds the intended name for a misspelt one.
//
//	return hint.With(err, hint.DidYouMean(name, names, "list the names with …"))
//
// The program prints an error, and then the hints that [Of] returns for it.
package hint

import "errors"

type hinted struct {
	error
	hints []string
}

func (h *hinted) Unwrap() error { return h.error }

// With adds hints, one line each, that tell the user how to solve err. Its result unwraps to err. For a nil error it returns nil.
func With(err error, hints ...string) error {
	if err == nil {
		return nil
	}
	return &hinted{err, hints}
}

// Of returns the hints of the last With. It leaves out the hints of earlier calls. For an error without hints it returns nil.
func Of(err error) []string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hints
	}
	return nil
}
