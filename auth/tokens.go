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

// The text of a token is mp_{id}_{secret} in lower-case base32. A double click selects it, and a secret scanner finds it.
const (
	tokenPrefix = "mp_"
	idLength    = 16 // 80 random bits
	idBytes     = idLength * 5 / 8
	secretBytes = 32
	secretLen   = 52
	tokenLength = len(tokenPrefix) + idLength + 1 + secretLen
)

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Token is the stored part of a token, without its text. The creator chooses name, expiry and rights.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"` // 1 to 64 letters, digits, -, _, . and @; unique among live tokens
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"` // zero: not revoked
	Scopes  []Scope   `json:"scopes,omitempty"` // the modules that may be read
	Admin   bool      `json:"admin,omitempty"`
	Refresh bool      `json:"refresh,omitempty"`
}

// Live reports whether the token is neither revoked nor expired at now.
func (t Token) Live(now time.Time) bool {
	return t.Revoked.IsZero() && (t.Expires.IsZero() || now.Before(t.Expires))
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@"

// check checks the fields that the creator of a token chooses.
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
		return bad("a token without a scope allows nothing: name a scope, or * for every module")
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

// newToken returns the text of a new token, its id and the hash of its secret.
func newToken() (text, id string, hash modproxy.Digest) {
	random := make([]byte, idBytes+secretBytes)
	rand.Read(random) // rand.Read never fails
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

// IDOf returns an id for the principal that parts identify, in the form of token ids. It is a hash and hides the parts.
func IDOf(parts ...string) string {
	var text []byte
	for _, part := range parts {
		text = appendPart(text, part)
	}
	sum := sha256.Sum256(text)
	return base32Lower.EncodeToString(sum[:idBytes])
}

// maxTokens limits the tokens in a file. It is a variable for tests.
var maxTokens = 10_000

const (
	maxScopes = 100
	keepDead  = 90 * 24 * time.Hour // how long List shows a token after its end, and the minimum time that a revoked one stays in the file
)

// errFile is the text for clients while a file cannot be used. Check returns the reason.
var errFile = fmt.Errorf("%w: credentials cannot be checked at present (operator: the log has the reason)", modproxy.ErrUnavailable)

// Tokens are the tokens in a file that other processes may change at any time. While the file is damaged or has disappeared, no
// token is valid. Tokens is safe for concurrent use.
type Tokens struct{ file *file[tokenSet] }

// tokenRecord is a token in the file.
type tokenRecord struct {
	Token
	Hash modproxy.Digest `json:"sha256"` // of the secret's text
}

// tokenSet is the content of the file.
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

// OpenTokens opens the file at path. If the file does not exist, no token is valid until [Tokens.Create] adds one, in this or
// another process. A damaged file is an error.
func OpenTokens(path string) (*Tokens, error) {
	f, err := openFile(path, "tokens", "modproxy tokens 1", (*tokenSet).check)
	return &Tokens{f}, err
}

// Verify returns the principal of the token text. now is from [time.Now]: turning back the wall clock does not extend the life
// of a token. The error is a [*Refused], or [modproxy.ErrUnavailable] while the file cannot be used.
func (t *Tokens) Verify(text string, now time.Time) (Principal, error) {
	id, hash, ok := parseToken(text)
	if !ok {
		return Principal{}, &Refused{Why: "not the form of a token"}
	}
	set, err := t.file.get(now)
	if err == nil && set.find(id, hash) == nil { // the token may be brand-new
		set, err = t.file.look(now, lookSoon)
	}
	if err != nil {
		return Principal{}, errFile
	}
	return t.principal(set.find(id, hash), now)
}

// find returns the token with this id and hash, or nil.
func (s *tokenSet) find(id string, hash modproxy.Digest) *tokenRecord {
	r := cmp.Or(s.byID[id], &unknown)
	if subtle.ConstantTimeCompare(hash[:], r.Hash[:]) != 1 || r == &unknown {
		return nil
	}
	return r
}

// unknown takes the place of a missing token, so that the comparison takes as long.
var unknown tokenRecord

// byID returns the principal of a token by its id. The caller has verified a segment that was signed for the token.
func (t *Tokens) byID(id string, now time.Time) (Principal, error) {
	set, err := t.file.get(now)
	if err != nil {
		return Principal{}, errFile
	}
	return t.principal(set.byID[id], now)
}

// principal returns the principal of a live token. r may be nil. If r is not nil, the client has proved that the token is its
// own, and the error says what became of the token.
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

// Check returns the reason why all tokens are refused, or nil if tokens can be checked.
func (t *Tokens) Check() error {
	_, err := t.file.get(time.Now())
	return err
}

// List returns the tokens sorted by name. It includes those that ended less than 90 days ago.
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

// Create durably adds a token with the name, expiry and rights of spec. The text is returned here and stored nowhere. The error
// is [modproxy.ErrInvalid] for an invalid spec and [modproxy.ErrUnavailable] for the file.
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
				return nil, fmt.Errorf("%w: token: one with the name %s exists; revoke it first, or choose another name", modproxy.ErrInvalid, spec.Name)
			}
			if r.Revoked.IsZero() || r.Revoked.After(now.Add(-keepDead)) {
				records = append(records, r)
			}
		}
		if records = makeRoom(records, now); len(records) >= maxTokens {
			return nil, fmt.Errorf("%w: token: the maximum of %d tokens exists; revoke unused ones", modproxy.ErrInvalid, maxTokens)
		}
		return &tokenSet{Tokens: append(records, tokenRecord{made, hash})}, nil
	})
	if err != nil {
		return "", Token{}, err
	}
	return text, made, nil
}

// makeRoom returns records, without the revoked or expired one that ended first if the file is full. Expired tokens are removed
// for no other reason: if the clock is wrong now, they may still be valid.
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

// Revoke permanently ends the token with an id, or the live one with a name, and all package paths that were signed for it.
// Several live tokens have the same name if the name was used again while the clock was ahead: Revoke ends all of them and
// returns the first. Revoking again has no effect. The error is [modproxy.ErrNotFound], or [modproxy.ErrUnavailable] for the
// file.
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
			return nil, fmt.Errorf("%w: no token has the id, and no valid token has the name, %.80q", modproxy.ErrNotFound, idOrName)
		}
		return &tokenSet{Tokens: records}, nil
	})
	return revoked, err
}

// Clock measures time independently of steps of the wall clock: turning it back extends nothing. The times passed to its
// methods come from [time.Now]. It is safe for concurrent use.
type Clock struct {
	wall  time.Time // the creation time, without a monotonic reading
	start time.Time // the same moment, with a monotonic reading
}

// NewClock returns a clock that starts now.
func NewClock() Clock {
	now := time.Now()
	return Clock{wall: now.Round(0), start: now}
}

// Steady returns the time of the clock's start plus the time that has passed since. Steps of the wall clock have no effect.
func (c *Clock) Steady(now time.Time) time.Time { return c.wall.Add(now.Sub(c.start)) }

// Latest returns the later of the wall clock's time and the steady time.
func (c *Clock) Latest(now time.Time) time.Time {
	if steady := c.Steady(now); steady.After(now) {
		return steady
	}
	return now.Round(0)
}
