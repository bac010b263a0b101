package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Problem is something that keeps the proxy from its work.
type Problem struct {
	// State is what everybody may know: no paths, no names.
	State string
	// Err is what operators are told, too; it may be nil.
	Err error
	// Minor problems leave the proxy ready.
	Minor bool
}

// serveAlive answers that the process runs.
func (h *Handler) serveAlive(w *response, r *http.Request, e *Event) error {
	e.Kind = "health"
	_, err := w.Write([]byte("ok\n"))
	return err
}

// serveReady answers whether the proxy can do its work, and the problems: their states to everybody, all of them to
// operators and the log.
func (h *Handler) serveReady(w *response, r *http.Request, e *Event) error {
	e.Kind = "health"
	answer, ready := "ready\n", true
	if problems := h.cfg.Process.Problems(); len(problems) > 0 {
		var states, details []string
		for _, p := range problems {
			states = append(states, p.State)
			if p.Err != nil {
				p.State += ": " + p.Err.Error()
			}
			details = append(details, p.State)
			ready = ready && p.Minor
		}
		shown := states
		if h.isOperator(r, e) {
			shown = details
		}
		answer = fmt.Sprintf("ready, but %s\n", strings.Join(shown, "; "))
		if !ready {
			e.Err = errors.New(strings.Join(details, "; "))
			return &requestError{http.StatusServiceUnavailable, errors.New(strings.Join(shown, "; "))}
		}
	}
	_, err := w.Write([]byte(answer))
	return err
}

// isOperator reports whether r is from an operator, or where clients need no credential, from this machine.
func (h *Handler) isOperator(r *http.Request, e *Event) bool {
	if h.cfg.Local {
		return true
	}
	_, err := h.identifyOperator(r, e)
	return err == nil
}
