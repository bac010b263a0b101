package egress

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
)

// Request is one question to a server. Only GET is ever sent.
type Request struct {
	URL string
	// Header is sent as it is, to every hop, with User-Agent and Accept-Encoding and nothing else. It must not
	// carry credentials: they belong to an origin, and are in Credentials.
	Header http.Header
	// Credentials are each sent to its origin only.
	Credentials []Credential
	// Redirects is how many may be followed, at most 20. With 0 a redirect is an
	// answer like any other; one too many is [ErrAnswer].
	Redirects int
	// Budget, unless nil, bounds what is sent for this and all the other requests
	// that have it together. Beyond it is [ErrAnswer].
	Budget *Budget
	// Attempts is how often each hop is tried while there is no answer, or a 5xx (not 501); 0 is 1, at most 10.
	// A short Retry-After is waited for; an answer with a longer one is returned.
	Attempts int
	// MaxBytes bounds the body, as sent and as decoded; 0 is 1 MiB. Reading more is [ErrTooLarge].
	MaxBytes int64
	// Archive asks for the bytes as they are stored: no content coding, and a
	// body whose end can be told from a broken connection.
	Archive bool
}

// Credential is what one origin, and no other, is shown.
type Credential struct {
	Origin        string // as [Origin] writes it: https://host or https://host:port
	Authorization Secret // the whole value of the Authorization header
}

// Budget is how many times servers may be asked: by requests, by the redirects that
// they follow, and by further attempts. It is for one goroutine at a time.
type Budget struct{ most, left int }

// NewBudget returns a Budget for so many.
func NewBudget(most int) *Budget { return &Budget{most, most} }

// Spent reports whether nothing is left.
func (b *Budget) Spent() bool { return b != nil && b.left == 0 }

func (b *Budget) take() error {
	if b.Spent() {
		return fmt.Errorf("%w: more than %d redirects and requests for one location", ErrAnswer, b.most)
	}
	if b != nil {
		b.left--
	}
	return nil
}

const (
	defaultMaxBytes = 1 << 20
	maxRedirects    = 20
	maxAttempts     = 10
)

// reserved are the header fields that callers must not set: credentials, what tells
// one server about another, and what this package sets itself.
var reserved = []string{"Authorization", "Proxy-Authorization", "Cookie", "Referer", "Host", "Accept-Encoding", "Connection"}

// checked returns r with its defaults. Only a mistake of the caller is an error.
func (r Request) checked() (Request, error) {
	for name := range r.Header {
		if slices.Contains(reserved, http.CanonicalHeaderKey(name)) {
			return r, fmt.Errorf("egress: a request's header must not have %s", name)
		}
	}
	for _, cred := range r.Credentials {
		if u, err := url.Parse(cred.Origin); err != nil || cred.Origin == "" || Origin(u) != cred.Origin {
			return r, errors.New("egress: the origin of a credential: want https://host or https://host:port, in lower case")
		}
	}
	if r.MaxBytes < 0 || r.Redirects < 0 || r.Attempts < 0 {
		return r, errors.New("egress: a bound of a request is negative")
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = defaultMaxBytes
	}
	r.MaxBytes = min(r.MaxBytes, math.MaxInt64-1)
	r.Redirects = min(r.Redirects, maxRedirects)
	r.Attempts = min(max(r.Attempts, 1), maxAttempts)
	return r, nil
}

// header returns what is sent to u.
func (r Request) header(u *url.URL, userAgent string) http.Header {
	h := http.Header{}
	maps.Copy(h, r.Header)
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", userAgent)
	}
	h.Set("Accept-Encoding", "gzip")
	if r.Archive {
		h.Set("Accept-Encoding", "identity")
	}
	origin := Origin(u)
	i := slices.IndexFunc(r.Credentials, func(c Credential) bool { return c.Origin == origin })
	if i >= 0 && !r.Credentials[i].Authorization.IsZero() {
		h.Set("Authorization", r.Credentials[i].Authorization.Reveal())
	}
	return h
}
