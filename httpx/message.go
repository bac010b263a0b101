package httpx

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/protocol"
)

// message is the text that a client prints of an error.
type message struct {
	what string // happened, and why
	next string // is what the developer does; may be empty
}

// within returns the text in about n bytes. It cuts only what happened.
func (t message) within(n int) string {
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

// message returns the text of err for the client that sent r, in an answer with that status. Answers to operators, at paths of their
// own, do not say what to do.
func (p *Responder) message(r *http.Request, err error, status int) message {
	t := message{what: oneLine(err.Error())}
	if strings.HasPrefix(r.URL.Path, "/-/") && !protocol.IsMirror(r.URL.Path) {
		return t
	}
	if remark := tried(err); remark != "" {
		t.what += " (" + remark + ")"
	}
	ask := "ask " + p.contact()
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
		status == http.StatusMisdirectedRequest, errors.Is(err, ErrAbsent):
		t.next = ask
	}
	return t
}

// contactNamer is an error whose text names the contact.
type contactNamer interface {
	error
	NamesContact()
}

// contact returns whom developers ask.
func (p *Responder) contact() string {
	if p.Contact != nil {
		if contact := p.Contact(); contact != "" {
			return oneLine(contact)
		}
	}
	return "the operator of this proxy"
}

// tried returns when a failed download was tried, and when it is tried again if that may help.
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

// oneLine returns s without secrets, with blanks in the place of line breaks and other control characters, and with escapes in the
// place of other characters that a terminal obeys or does not show. It repeats nothing of a text that hides a token.
func oneLine(s string) string {
	if hidesToken(s) {
		return "there is a token in the request, whose text is not repeated"
	}
	return clean.Text(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, auth.Redact(s)))
}
