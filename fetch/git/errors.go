package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// explain returns the reason why git failed to fetch from r. It uses the session and the last HTTP answer instead of
// git's messages. The result is still an *exitError if another kind of request may succeed. explain sets r.mayPass.
func (r *repository) explain(err error) error {
	exit, ok := errors.AsType[*exitError](err)
	if !ok {
		return err
	}
	if r.session != nil && r.session.Refused() != nil {
		r.mayPass = egress.MayPass(r.session.Refused())
		return fetch.Outgoing(r.session.Refused())
	}
	if full := outOfSpace(exit.stderr); full != nil {
		return fmt.Errorf("%w: git ran out of room for what it fetched: %w", modproxy.ErrUnavailable, full)
	}
	status, location, after := r.lastAnswer()
	said := scrub(exit.stderr, r.at.scheme == "ssh", r.secrets...)
	if location != "" {
		return &redirect{firstRequest, location}
	}
	if err := r.answered(status, after, said); err != nil {
		return err
	}
	why := ""
	if r.at.scheme == "ssh" {
		why = strings.TrimPrefix(scrub(unconnected.FindString(exit.stderr), true), ": ")
	} else if status == 0 {
		why = "it did not answer git"
	}
	r.mayPass = status == 0 && r.at.scheme != "ssh"
	if untrusted.MatchString(exit.stderr) {
		r.mayPass = false
		said += fetch.Authority
	}
	err = fmt.Errorf("%w: %w%s", modproxy.ErrUnavailable, exit, said)
	if why != "" {
		err = &fetch.NoAnswer{Why: why, Err: err}
	}
	return err
}

// unconnected matches the messages of ssh about a server that it does not reach, or that ends the connection. They name no repository.
var unconnected = regexp.MustCompile(`(?m)^(?:ssh: connect to host |kex_exchange_identification: |banner exchange: |Connection (?:closed|reset) by |` +
	`Connection (?:to \S+ port [0-9]+ )?timed out|Connection to \S+ closed by remote host|Timeout, server \S+ not responding)[^\r\n]*`)

// untrusted matches the messages of git's TLS libraries about a certificate of an unknown authority.
var untrusted = regexp.MustCompile(`(?i)server certificate verification failed|unable to get (local )?issuer certificate|self[- ]signed certificate`)

// answered returns the error for an answer of r.at with the given status and Retry-After, or nil if the status is not
// an error. It sets r.mayPass.
func (r *repository) answered(status int, after, said string) error {
	origin := r.at.origin()
	switch {
	case status == 401 && !r.basic.IsZero():
		return fmt.Errorf("%w: the credential for %s was refused (operator: check credentials[])", modproxy.ErrDenied, origin)
	case status == 401:
		return fmt.Errorf("%w: authentication required, or no such repository (operator: no credentials[] is for %s)",
			modproxy.ErrDenied, origin)
	case status == 403:
		return fmt.Errorf("%w: %s answered 403", modproxy.ErrDenied, origin)
	case status == 404 || status == 410:
		return fmt.Errorf("%w: no such repository: %s answered %d", modproxy.ErrNotFound, origin, status)
	case status >= 400:
		r.mayPass = fetch.MayPass(status)
		err := &fetch.Answered{Where: origin, Status: fmt.Sprint(status, said), Code: status, Host: r.at.hostPort()}
		return fetch.Later(err, after)
	}
	return nil
}

// broken returns the error for the failure of a git that makes no connection.
func broken(err error) error {
	exit, ok := errors.AsType[*exitError](err)
	if !ok {
		return err
	}
	if full := outOfSpace(exit.stderr); full != nil {
		return errUnavailable(full)
	}
	return fmt.Errorf("%w: %w%s", modproxy.ErrUnavailable, exit, scrub(exit.stderr, false))
}

// outOfSpace returns the error of a git that could not write for lack of space, or nil. git runs in the C locale.
func outOfSpace(stderr string) error {
	for _, known := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		if strings.Contains(strings.ToLower(stderr), known.Error()) {
			return known
		}
	}
	return nil
}

var (
	statusPattern   = regexp.MustCompile(`(?mi)<= recv header: HTTP/[0-9.]+ ([0-9]{3})\b *([^\r\n]*)`)
	locationPattern = regexp.MustCompile(`(?mi)<= recv header: location: *(\S.*)$`)
	afterPattern    = regexp.MustCompile(`(?mi)<= recv header: retry-after: *(\S.*)$`)
)

// connected is the answer of an [egress.Session] to CONNECT, which git traces like the answers of servers.
const connected = "Connection established"

// lastAnswer returns the status of the last HTTP answer that git received on its last connection, or 0, with the target of a
// redirect and the Retry-After. git's exit status is 128 for all errors, but its trace has the headers.
func (r *repository) lastAnswer() (status int, location, after string) {
	f, err := os.Open(r.trace)
	if err != nil {
		return 0, "", ""
	}
	defer f.Close()
	const tail = 256 << 10
	_, _ = f.Seek(-tail, io.SeekEnd) // fails, and stays at the beginning, if the file is shorter
	trace, _ := io.ReadAll(io.LimitReader(f, tail))
	last := trace[len(trace):]
	for _, at := range statusPattern.FindAllSubmatchIndex(trace, -1) {
		status, _ = strconv.Atoi(string(trace[at[2]:at[3]]))
		if bytes.HasPrefix(trace[at[4]:at[5]], []byte(connected)) {
			status = 0
		}
		last = trace[at[1]:]
	}
	if m := locationPattern.FindSubmatch(last); m != nil && status/100 == 3 {
		location = strings.TrimSpace(string(m[1]))
	}
	if m := afterPattern.FindSubmatch(last); m != nil && (status == 429 || status == 503) {
		after = strings.TrimSpace(string(m[1]))
	}
	return status, location, after
}

var (
	urlPattern = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s'"<>]*`)
	atPattern  = regexp.MustCompile(`\S*@`)
	// hostport matches an authority without user information.
	hostport = regexp.MustCompile(`^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?(?:/|$)`)
)

const maxSaid = 240 // bytes

// scrub shortens git's stderr for the end of an error message. The result has git's error messages, with URLs without
// user information and query, without control characters, and without secrets. It is only for people.
func scrub(stderr string, viaSSH bool, secrets ...string) string {
	var said []string // git's lines about errors
	before := ""      // the line before them, which with ssh is ssh's own message
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		kind, text, _ := strings.Cut(line, ": ")
		switch {
		case kind == "fatal" || kind == "error":
			said = append(said, text)
		case line != "" && said == nil:
			before = line
		}
	}
	text := strings.Join(said, "; ")
	if viaSSH && before != "" {
		text = before
	}
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	text = urlPattern.ReplaceAllStringFunc(text, bareURL)
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	switch {
	case text == "":
		return ""
	case len(text) > maxSaid:
		text = strings.ToValidUTF8(text[:maxSaid], "") + " ..."
	}
	return ": " + text
}

func bareURL(s string) string {
	s, _, _ = strings.Cut(s, "?")
	s, _, _ = strings.Cut(s, "#")
	scheme, rest, _ := strings.Cut(s, "://")
	if !hostport.MatchString(rest) { // a password may contain a slash, and a path an @
		rest = atPattern.ReplaceAllString(rest, "")
	}
	return scheme + "://" + rest
}

// tooLarge returns the error for a repository, or a list of refs, that exceeds the limit of r.
func (r *repository) tooLarge() error {
	if r.refs {
		return invalid("the list of refs is larger than the %d bytes that are allowed", r.limit)
	}
	return tooLarge(r.limit)
}

// tooLarge returns the error for a fetch whose repository exceeds the limit.
func tooLarge(limit int64) error {
	return invalid("the repository is larger than the %d bytes that are allowed (operator: fetch.max_received)", limit)
}

// errUnavailable wraps err as [modproxy.ErrUnavailable]. It returns nil if err is nil.
func errUnavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
}
