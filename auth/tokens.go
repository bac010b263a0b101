package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// The text of a token is mp_{id}_{secret} in lower-case base32: a double click selects it, a secret scanner finds it.
const (
	tokenPrefix = "mp_"
	idLength    = 16 // 80 random bits
	idBytes     = idLength * 5 / 8
	secretBytes = 32
	secretLen   = 52
	tokenLength = len(tokenPrefix) + idLength + 1 + secretLen
)

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Token is what is kept of a token, without its text. The creator chooses name, expiry and rights.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"` // for people: 1 to 64 letters, digits, -, _, . and @; no other token that is live has it
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"` // zero: not
	Scopes  []Scope   `json:"scopes,omitempty"` // whose modules may be read
	Admin   bool      `json:"admin,omitempty"`
	Refresh bool      `json:"refresh,omitempty"`
}

// Live reports whether the token is neither revoked nor expired at now.
func (t Token) Live(now time.Time) bool {
	return t.Revoked.IsZero() && (t.Expires.IsZero() || now.Before(t.Expires))
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@"

// check checks what the creator of a token chooses.
func (t Token) check(now time.Time) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: token: "+format, append([]any{modproxy.ErrInvalid}, args...)...)
	}
	switch {
	case t.Name == "" || len(t.Name) > 64 || strings.Trim(t.Name, nameLetters) != "":
		return bad("name %.80q: want 1 to 64 letters, digits, -, _, . and @", t.Name)
	case isID(t.Name):
		return bad("name %q looks like the id of a token", t.Name)
	case len(t.Scopes) == 0 && !t.Admin:
		return bad("it could do nothing: name a scope, * for every module")
	case len(t.Scopes) > maxScopes:
		return bad("more than %d scopes", maxScopes)
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return bad("it would have expired at %s", t.Expires.Format(time.RFC3339))
	}
	for _, scope := range t.Scopes {
		if !scope.valid() {
			return bad("scope %.100q", scope)
		}
	}
	return nil
}

func isID(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return len(s) == idLength
}

// newToken makes the text of a token, and what is kept of it.
func newToken() (text, id string, hash modproxy.Digest) {
	random := make([]byte, idBytes+secretBytes)
	rand.Read(random) // never fails
	id = base32Lower.EncodeToString(random[:idBytes])
	secret := base32Lower.EncodeToString(random[idBytes:])
	return tokenPrefix + id + "_" + secret, id, sha256.Sum256([]byte(secret))
}

// parseToken returns the id in the text of a token, and the hash of its secret.
func parseToken(text string) (id string, hash modproxy.Digest, ok bool) {
	if len(text) != tokenLength || !strings.HasPrefix(text, tokenPrefix) {
		return "", hash, false
	}
	id, rest := text[len(tokenPrefix):][:idLength], text[len(tokenPrefix)+idLength:]
	var secret [secretLen]byte
	copy(secret[:], rest[1:])
	return id, sha256.Sum256(secret[:]), rest[0] == '_' && isID(id)
}

// IDOf returns the id, in the form of the ids of tokens, of a principal that parts make unique. It hides them.
func IDOf(parts ...string) string {
	var text []byte
	for _, part := range parts {
		text = appendPart(text, part)
	}
	sum := sha256.Sum256(text)
	return base32Lower.EncodeToString(sum[:idBytes])
}

// maxTokens bounds the tokens of a file. It is a variable for tests.
var maxTokens = 10_000

const (
	maxScopes = 100
	keepDead  = 90 * 24 * time.Hour // for how long a token is listed after its end, and a revoked one is in the file
)

// errFile is what clients are told while a file cannot be used; Check has why.
var errFile = fmt.Errorf("%w: credentials cannot be checked now; the operator of the proxy is told why", modproxy.ErrUnavailable)

// Tokens are the tokens in a file, which other processes may change at any time. While it is damaged, or is gone
// after it was there, no token is good. It is safe for concurrent use.
type Tokens struct{ file *file[tokenSet] }

// tokenRecord is a token in the file.
type tokenRecord struct {
	Token
	Hash modproxy.Digest `json:"sha256"` // of the secret's text
}

// tokenSet is what the file has.
type tokenSet struct {
	Tokens []tokenRecord `json:"tokens"`
	byID   map[string]*tokenRecord
}

func (s *tokenSet) check() error {
	s.byID = make(map[string]*tokenRecord, len(s.Tokens))
	for i := range s.Tokens {
		r := &s.Tokens[i]
		if s.byID[r.ID] != nil || !isID(r.ID) || r.Hash.IsZero() {
			return errDamaged
		}
		s.byID[r.ID] = r
	}
	return nil
}

// OpenTokens opens the file at path, which need not be there: then there are no tokens until [Tokens.Create]
// makes one, here or in another process. A file that is damaged is an error.
func OpenTokens(path string) (*Tokens, error) {
	f, err := openFile(path, "tokens", "modproxy tokens 1", (*tokenSet).check)
	return &Tokens{f}, err
}

// Verify returns the principal that has the token text. now is from [time.Now]: a wall clock that was turned back makes
// no token last longer. Errors: a [*Refused], and [modproxy.ErrUnavailable] while the file cannot be used.
func (t *Tokens) Verify(text string, now time.Time) (Principal, error) {
	id, hash, ok := parseToken(text)
	if !ok {
		return Principal{}, &Refused{Why: "not the form of a token"}
	}
	set, err := t.file.get(now)
	if err == nil && set.find(id, hash) == nil { // it may have been made just now
		set, err = t.file.look(now, lookSoon)
	}
	if err != nil {
		return Principal{}, errFile
	}
	return t.principal(set.find(id, hash), now)
}

// find returns the token with an id whose secret has the hash, or nil.
func (s *tokenSet) find(id string, hash modproxy.Digest) *tokenRecord {
	r := cmp.Or(s.byID[id], &unknown)
	if subtle.ConstantTimeCompare(hash[:], r.Hash[:]) != 1 || r == &unknown {
		return nil
	}
	return r
}

// unknown is compared with where there is no token, which takes as long.
var unknown tokenRecord

// byID returns the principal of a token of which only the id was shown, in a segment that was signed for it.
func (t *Tokens) byID(id string, now time.Time) (Principal, error) {
	set, err := t.file.get(now)
	if err != nil {
		return Principal{}, errFile
	}
	return t.principal(set.byID[id], now)
}

// principal returns the principal of a live token. r may be nil; if it is not, the client has shown that the token was its own, and
// is told what became of it.
func (t *Tokens) principal(r *tokenRecord, now time.Time) (Principal, error) {
	if r == nil {
		return Principal{}, &Refused{Why: "no such token"}
	}
	p := Principal{Kind: ByToken, ID: r.ID, Name: r.Name, Until: r.Expires, Grant: Grant{r.Scopes, r.Admin, r.Refresh}}
	switch {
	case !r.Revoked.IsZero():
		return Principal{}, ended(p.String() + " was revoked on " + r.Revoked.UTC().Format(endedLayout))
	case !r.Live(t.file.clock.Latest(now)):
		return Principal{}, ended(p.String() + " has expired on " + r.Expires.UTC().Format(endedLayout))
	}
	return p, nil
}

const endedLayout = "2006-01-02 15:04 UTC"

func ended(why string) *Refused { return &Refused{Why: why, Told: "the " + why} }

// Check returns why no token is good; nil if some may be.
func (t *Tokens) Check() error {
	_, err := t.file.get(time.Now())
	return err
}

// List returns every token by name, with those that have expired or were revoked less than 90 days ago.
func (t *Tokens) List() ([]Token, error) {
	set, err := t.file.look(time.Now(), 0)
	if err != nil {
		return nil, err
	}
	ended := time.Now().Add(-keepDead)
	list := make([]Token, 0, len(set.Tokens))
	for _, r := range set.Tokens {
		if end := r.ended(); end.IsZero() || end.After(ended) {
			list = append(list, r.Token)
		}
	}
	slices.SortStableFunc(list, func(a, b Token) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Created.Compare(b.Created))
	})
	return list, nil
}

// Create makes a token with the name, expiry and rights of spec, durably. Its text is in nothing but the answer.
// Errors: [modproxy.ErrInvalid] for what spec asks for, [modproxy.ErrUnavailable] for the file.
func (t *Tokens) Create(ctx context.Context, spec Token) (text string, made Token, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	if err := spec.check(now); err != nil {
		return "", Token{}, err
	}
	text, id, hash := newToken()
	made = spec
	made.ID, made.Created, made.Expires, made.Revoked = id, now, spec.Expires.UTC(), time.Time{}
	err = t.file.change(ctx, func(old *tokenSet) (*tokenSet, error) {
		var records []tokenRecord
		for _, r := range old.Tokens {
			if r.Name == spec.Name && r.Live(now) {
				return nil, fmt.Errorf("%w: token: there is one with the name %s; revoke it first, or take another name", modproxy.ErrInvalid, spec.Name)
			}
			if r.Revoked.IsZero() || r.Revoked.After(now.Add(-keepDead)) {
				records = append(records, r)
			}
		}
		if records = makeRoom(records, now); len(records) >= maxTokens {
			return nil, fmt.Errorf("%w: token: there are %d, which is the most; revoke those that are not used", modproxy.ErrInvalid, maxTokens)
		}
		return &tokenSet{Tokens: append(records, tokenRecord{made, hash})}, nil
	})
	if err != nil {
		return "", Token{}, err
	}
	return text, made, nil
}

// makeRoom returns records without the revoked or expired one that ended first, if there is no room for another. Expired
// tokens are removed for nothing else: the clock may be wrong now, and then they are valid.
func makeRoom(records []tokenRecord, now time.Time) []tokenRecord {
	if len(records) < maxTokens {
		return records
	}
	first := -1
	for i, r := range records {
		if !r.Live(now) && (first < 0 || r.ended().Before(records[first].ended())) {
			first = i
		}
	}
	if first < 0 {
		return records
	}
	return slices.Delete(records, first, first+1)
}

// ended returns when r was revoked, or else when it expires.
func (r *tokenRecord) ended() time.Time {
	if !r.Revoked.IsZero() {
		return r.Revoked
	}
	return r.Expires
}

// Revoke ends the token with an id, or the live one with a name, for good, with all the package paths that were signed
// for it. Several live tokens have one name if it was given again while the clock was ahead: Revoke ends all of them, and
// returns the first. To revoke again does nothing. Errors: [modproxy.ErrNotFound], [modproxy.ErrUnavailable] for the file.
func (t *Tokens) Revoke(ctx context.Context, idOrName string) (revoked Token, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	err = t.file.change(ctx, func(old *tokenSet) (*tokenSet, error) {
		records, found := slices.Clone(old.Tokens), false
		for i := range records {
			r := &records[i]
			if r.ID != idOrName && (r.Name != idOrName || !r.Live(now)) {
				continue
			}
			if r.Revoked.IsZero() {
				r.Revoked = now
			}
			if !found {
				revoked, found = r.Token, true
			}
		}
		if !found {
			return nil, fmt.Errorf("%w: no token has the id, and no live one the name, %.80q", modproxy.ErrNotFound, idOrName)
		}
		return &tokenSet{Tokens: records}, nil
	})
	return revoked, err
}

// Clock tells the time in spite of steps of the wall clock: turning that back makes nothing last longer. The
// times that it is given come from [time.Now]. It is safe for concurrent use.
type Clock struct {
	wall  time.Time // when the clock was made, without a monotonic reading
	start time.Time // the same moment, with one
}

// NewClock returns a clock that starts now.
func NewClock() Clock {
	now := time.Now()
	return Clock{wall: now.Round(0), start: now}
}

// Steady goes on from the clock's start whatever happens to the wall clock.
func (c *Clock) Steady(now time.Time) time.Time { return c.wall.Add(now.Sub(c.start)) }

// Latest returns the later of the wall clock's time and the steady one.
func (c *Clock) Latest(now time.Time) time.Time {
	if steady := c.Steady(now); steady.After(now) {
		return steady
	}
	return now.Round(0)
}
