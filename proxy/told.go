package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/protocol"
)

// told is what a client prints of an error.
type told struct {
	what string // what happened, and why
	next string // what the developer does next; may be empty
}

// within returns the text in about n bytes. It cuts what happened, and never what to do.
func (t told) within(n int) string {
	end := ""
	if t.next != "" {
		end = "; " + t.next
	}
	if len(t.what)+len(end) > n {
		return strings.ToValidUTF8(t.what[:max(0, n-len(end))], "") + "…" + end
	}
	return t.what + end
}

// maxText is the longest text of an answer, in bytes: as much as a person reads.
const maxText = 1000

// tell returns what the client that sent r is told of err, which it gets as an answer with that status. Operators, who have
// paths of their own, need not be told what to do.
func (h *Handler) tell(r *http.Request, err error, status int) told {
	t := told{what: oneLine(err.Error())}
	if strings.HasPrefix(r.URL.Path, "/-/") && !protocol.IsMirror(r.URL.Path) {
		return t
	}
	if remark := tried(err); remark != "" {
		t.what += " (" + remark + ")"
	}
	ask := "ask " + h.contact()
	switch {
	case errors.As(err, new(contactNamer)):
	case errors.Is(err, modproxy.ErrChanged):
		t.next = "do not work around this: " + ask
	case status == http.StatusServiceUnavailable:
		t.next = fmt.Sprintf("try again in %v", inSeconds(retryAfter(err)))
	case status == http.StatusFailedDependency && as[*modproxy.RetryLater](err) && !as[*modproxy.FetchFailed](err):
		t.next = fmt.Sprintf("try again in %v, and if that fails, %s", inSeconds(retryAfter(err)), ask)
	case status == http.StatusUnauthorized:
		t.next = ask + " for a token"
	case status >= 500 && status != http.StatusInsufficientStorage:
		t.next = "try again, and if that fails, " + ask
	case status >= 500, status == http.StatusForbidden, status == http.StatusConflict, status == http.StatusFailedDependency,
		status == http.StatusMisdirectedRequest, errors.Is(err, errAbsent):
		t.next = ask
	}
	return t
}

// contactNamer is an error whose text says whom to ask.
type contactNamer interface {
	error
	NamesContact()
}

// contact returns whom people ask.
func (h *Handler) contact() string {
	if h.cfg.Contact != nil {
		if contact := h.cfg.Contact(); contact != "" {
			return oneLine(contact)
		}
	}
	return "the operator of this proxy"
}

// tried returns when a fetch that failed was tried, and will be tried again if that may change something.
func tried(err error) string {
	var failed *modproxy.FetchFailed
	if !errors.As(err, &failed) {
		return ""
	}
	again := errors.Is(failed.Err, modproxy.ErrUnavailable) || errors.Is(failed.Err, modproxy.ErrNotFound)
	ago, wait := time.Since(failed.Time).Round(time.Second), time.Until(failed.Again).Round(time.Second)
	switch {
	case !again && ago > 0:
		return fmt.Sprintf("tried %v ago", ago)
	case !again:
		return ""
	case wait > 0 && ago <= 0:
		return fmt.Sprintf("to be tried again in %v", wait)
	case wait > 0:
		return fmt.Sprintf("tried %v ago, and again in %v", ago, wait)
	case ago > 0:
		return fmt.Sprintf("tried %v ago, and being tried again", ago)
	}
	return ""
}

// inSeconds rounds d up to whole seconds.
func inSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
