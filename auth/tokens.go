package auth

import (
	"cmp"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	tokensFormat = "modproxy tokens 1"
	maxTokens    = 10_000
	maxScopes    = 100
	keepDead     = 90 * 24 * time.Hour // for how long a token is listed after its end
)

// errFile is what everybody is told while a file cannot be used; Check has why.
var errFile = fmt.Errorf("%w: nobody can be let in now; the proxy's operator is told why", modproxy.ErrUnavailable)

// Tokens are the tokens in a file, which other processes may change at any time.
// It is safe for concurrent use.
//
// While the file is damaged, or is gone after it was there, no token is good.
type Tokens struct {
	clock Clock
	file  *watched[tokenSet]
}

// tokenRecord is a token in the file.
type tokenRecord struct {
	Token
	Hash modproxy.Digest `json:"sha256"` // of the secret's text
}

type tokenFile struct {
	Tokens []tokenRecord `json:"tokens"`
}

// tokenSet is the file, read. The zero tokenSet has no tokens.
type tokenSet struct {
	records []tokenRecord
	byID    map[string]*tokenEntry
}

type tokenEntry struct {
	*tokenRecord
	principal Principal
}

// OpenTokens opens the file at path, which need not be there: then there are no
// tokens until [Tokens.Create] makes one, here or in another process. A file that
// is damaged is an error.
func OpenTokens(path string) (*Tokens, error) {
	t := &Tokens{clock: NewClock()}
	var err error
	t.file, err = watch(path, t.clock.start, tokenSet{}, parseTokens)
	return t, err
}

func parseTokens(file []byte) (tokenSet, error) {
	var content tokenFile
	if err := unseal(tokensFormat, file, &content); err != nil {
		return tokenSet{}, err
	}
	set := tokenSet{content.Tokens, make(map[string]*tokenEntry, len(content.Tokens))}
	for i := range set.records {
		r := &set.records[i]
		if _, twice := set.byID[r.ID]; twice || !isID(r.ID) || r.Hash.IsZero() {
			return tokenSet{}, errDamaged
		}
		set.byID[r.ID] = &tokenEntry{r, Principal{
			Kind: ByToken, ID: r.ID, Name: r.Name, Until: r.Expires, Grant: Grant{r.Scopes, r.Admin},
		}}
	}
	return set, nil
}

// Verify says whose token text is. now is from [time.Now]: a wall clock that was
// turned back while the process runs makes no token last longer.
//
// Its error is a [*Refused], or [modproxy.ErrUnavailable] while the file cannot
// be used. Whether the id is known makes no difference to what is done.
func (t *Tokens) Verify(text string, now time.Time) (Principal, error) {
	id, hash, ok := parseToken(text)
	if !ok {
		return Principal{}, &Refused{"not the form of a token"}
	}
	set, err := t.file.get(now)
	if err != nil {
		return Principal{}, errFile
	}
	entry := set.find(id, hash)
	if entry == nil { // it may have been made just now
		if set, err = t.file.again(now); err != nil {
			return Principal{}, errFile
		}
		entry = set.find(id, hash)
	}
	if entry == nil {
		return Principal{}, &Refused{"no such token"}
	}
	return t.live(entry, now)
}

// find is the token with an id whose secret has the hash, or nil.
func (s *tokenSet) find(id string, hash modproxy.Digest) *tokenEntry {
	entry, known := s.byID[id]
	if !known {
		entry = &unknown
	}
	if same := subtle.ConstantTimeCompare(hash[:], entry.Hash[:]); same != 1 || !known {
		return nil
	}
	return entry
}

// unknown is compared with where there is no token.
var unknown = tokenEntry{tokenRecord: &tokenRecord{}}

// byID is the principal of a token of which only the id was shown: by somebody
// whom the one with the token vouched for.
func (t *Tokens) byID(id string, now time.Time) (Principal, error) {
	set, err := t.file.get(now)
	if err != nil {
		return Principal{}, errFile
	}
	entry, known := set.byID[id]
	if !known {
		return Principal{}, &Refused{"no such token"}
	}
	return t.live(entry, now)
}

func (t *Tokens) live(e *tokenEntry, now time.Time) (Principal, error) {
	switch {
	case !e.Revoked.IsZero():
		return Principal{}, &Refused{e.principal.String() + " was revoked"}
	case t.clock.expired(e.Expires, now):
		return Principal{}, &Refused{e.principal.String() + " has expired"}
	}
	return e.principal, nil
}

// Check is nil, or why no token is good.
func (t *Tokens) Check() error {
	_, err := t.file.get(time.Now())
	return tokensErr(err)
}

func tokensErr(err error) error {
	if err != nil {
		return fmt.Errorf("%w: tokens: %w", modproxy.ErrUnavailable, err)
	}
	return nil
}

// List is every token, those that ended less than 90 days ago included, by name.
func (t *Tokens) List() ([]Token, error) {
	set, err := t.file.fresh()
	if err != nil {
		return nil, tokensErr(err)
	}
	list := make([]Token, len(set.records))
	for i, r := range set.records {
		list[i] = r.Token
	}
	slices.SortStableFunc(list, func(a, b Token) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Created.Compare(b.Created))
	})
	return list, nil
}

// Create makes a token. Its text is in nothing but the answer. The token is kept,
// whatever happens, when Create has returned without an error.
//
// Errors: [modproxy.ErrInvalid] for what spec asks for, [modproxy.ErrUnavailable]
// for the file.
func (t *Tokens) Create(spec TokenSpec) (text string, made Token, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	if err := spec.check(now); err != nil {
		return "", Token{}, err
	}
	text, id, hash := newToken()
	made = Token{ID: id, Name: spec.Name, Created: now, Expires: spec.Expires.UTC(), Scopes: spec.Scopes, Admin: spec.Admin}
	err = t.change(func(records []tokenRecord) ([]tokenRecord, error) {
		records = slices.DeleteFunc(records, func(r tokenRecord) bool { return !r.Live(now) && !ended(r.Token).After(now.Add(-keepDead)) })
		for _, r := range records {
			if r.Name == spec.Name && r.Live(now) {
				return nil, fmt.Errorf("%w: token: there is one with the name %s; revoke it first, or take another name", modproxy.ErrInvalid, spec.Name)
			}
		}
		if len(records) >= maxTokens {
			return nil, fmt.Errorf("%w: token: there are %d, which is the most; those that are revoked go after 90 days", modproxy.ErrInvalid, maxTokens)
		}
		return append(records, tokenRecord{made, hash}), nil
	})
	if err != nil {
		return "", Token{}, err
	}
	return text, made, nil
}

// ended is when a token that is not live ended.
func ended(t Token) time.Time {
	if t.Revoked.IsZero() || !t.Expires.IsZero() && t.Expires.Before(t.Revoked) {
		return t.Expires
	}
	return t.Revoked
}

// Revoke ends the token with an id, or the live one with a name, for good, with
// all the package paths that were signed for it. To revoke again does nothing.
//
// Errors: [modproxy.ErrNotFound], [modproxy.ErrUnavailable] for the file.
func (t *Tokens) Revoke(idOrName string) (revoked Token, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	err = t.change(func(records []tokenRecord) ([]tokenRecord, error) {
		i := slices.IndexFunc(records, func(r tokenRecord) bool {
			return r.ID == idOrName || r.Name == idOrName && r.Live(now)
		})
		if i < 0 {
			return nil, fmt.Errorf("%w: no token has the id, and no live one the name, %.80q", modproxy.ErrNotFound, idOrName)
		}
		if records[i].Revoked.IsZero() {
			records[i].Revoked = now
		}
		revoked = records[i].Token
		return records, nil
	})
	return revoked, err
}

// change replaces the file. edit may change what it is given; its error is change's.
func (t *Tokens) change(edit func([]tokenRecord) ([]tokenRecord, error)) error {
	var refused error
	err := locked(t.file.path, func() error {
		set, err := t.file.fresh()
		if err != nil {
			return err
		}
		var records []tokenRecord
		if records, refused = edit(slices.Clone(set.records)); refused != nil {
			return nil
		}
		content, err := seal(tokensFormat, tokenFile{records})
		if err != nil {
			return err
		}
		return errors.Join(replace(t.file.path, content), t.see())
	})
	if refused != nil {
		return refused
	}
	return tokensErr(err)
}

// see takes notice of the file as it is now.
func (t *Tokens) see() error {
	_, err := t.file.fresh()
	return err
}
