package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	defaultLife = time.Hour
	minLife     = time.Minute
	maxLife     = 7 * 24 * time.Hour
	maxSkew     = time.Minute // between the clocks of processes that share a key
)

// SignerConfig is how a [Signer] is set up.
type SignerConfig struct {
	// Life is how long a signed path is good at least; at most it is twice as long. Time is cut into periods of
	// this length, and a path is good to the end of the period after the one in which it was signed. So a
	// client that asks again within a period is given the same path, which caches on its side know. 0 is an
	// hour; at least a minute, at most 7 days.
	Life time.Duration
	// Tokens knows, when a path comes back, whether the token that it was signed for is still good. Nil: no
	// path that was signed for a token is.
	Tokens *Tokens
	// Rules stands for what principals known [ByIssuer] may do: paths that were signed for them under other
	// rules are not good.
	Rules string
}

// Check returns [modproxy.ErrInvalid] if Life is out of its bounds.
func (c SignerConfig) Check() error {
	if c.Life != 0 && (c.Life < minLife || c.Life > maxLife || c.Life%time.Second != 0) {
		return fmt.Errorf("%w: life of signed paths %v: want whole seconds, %v to %v", modproxy.ErrInvalid, c.Life, minLife, maxLife)
	}
	return nil
}

// Signer signs package paths, for clients that show no credential when they fetch a package. It is safe for
// concurrent use.
//
// A signed path is good for the principal and the package that it was signed for, until it expires. For a token
// it ends with the token, and with the scope that covers the module. A principal known by an issuer cannot be
// looked up again, so its path is good for its one package until it expires.
//
// Time is counted from the start of the process: while it runs, turning the wall clock makes a path good for
// neither longer nor shorter.
type Signer struct {
	cfg   SignerConfig
	clock Clock
	keys  *file[keys]
}

// OpenSigner opens the key at path, 32 random bytes, and makes it if there is none.
func OpenSigner(ctx context.Context, path string, cfg SignerConfig) (*Signer, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.Life == 0 {
		cfg.Life = defaultLife
	}
	s := &Signer{cfg: cfg, clock: NewClock()}
	var err error
	s.keys, err = openKeys(ctx, path, s.clock.start)
	return s, err
}

// Check returns why no path can be signed or is good; nil if it can.
func (s *Signer) Check() error {
	_, err := s.keys.get(time.Now())
	return err
}

// Sign returns the segment that p's client puts before path. path is that of a package which p may read, from
// the root and in its one spelling. now is from [time.Now].
//
// Errors: [modproxy.ErrUnauthorized] for [Nobody], [modproxy.ErrUnavailable] while the key cannot be used.
func (s *Signer) Sign(p Principal, path string, now time.Time) (string, error) {
	if p.Kind != ByToken && p.Kind != ByIssuer || !isID(p.ID) {
		return "", &Refused{"nothing is signed for " + p.String()}
	}
	keys, err := s.keys.get(now)
	if err != nil {
		return "", errFile
	}
	life := int64(s.cfg.Life / time.Second)
	expiry := (s.clock.Steady(now).Unix()/life + 2) * life
	made := segment{0: segmentVersion, 1: byte(p.Kind)}
	binary.BigEndian.PutUint32(made[expiryAt:], uint32(expiry))
	copy(made[idAt:], p.ID)
	copy(made[macAt:], s.mac(keys.Current, &made, path))
	return made.text(), nil
}

// Path returns path with the segment of Sign before it.
func (s *Signer) Path(p Principal, path string, now time.Time) (string, error) {
	segment, err := s.Sign(p, path, now)
	return "/" + segment + path, err
}

// mac returns the HMAC-SHA-256 of a segment before a path: over what makes it one thing and no other, each part
// behind its length.
func (s *Signer) mac(key []byte, of *segment, path string) []byte {
	text := make([]byte, 0, 512)
	text = appendPart(text, "modproxy package path")
	text = appendPart(text, of[:expiryAt])
	text = appendPart(text, of[expiryAt:idAt])
	text = appendPart(text, of[idAt:macAt])
	if of.kind() == ByIssuer {
		text = appendPart(text, s.cfg.Rules)
	}
	h := hmac.New(sha256.New, key)
	h.Write(appendPart(text, path))
	return h.Sum(nil)
}

// appendPart appends so that no other sequence of parts gives the same.
func appendPart[T string | []byte](to []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(part))), part...)
}

// Redeem returns the principal that the segment text before path was signed for. path is that of a package of
// m, in its one spelling, and now is from [time.Now]. The principal is good for this package only.
//
// Errors: [modproxy.ErrNotFound], with the principal, if it may no longer read m, a [*Refused] for whatever
// else is wrong with the segment, and [modproxy.ErrUnavailable] while a file cannot be used.
func (s *Signer) Redeem(text, path string, m modproxy.Module, now time.Time) (Principal, error) {
	given, ok := parseSegment(text)
	if !ok {
		return Principal{}, &Refused{"not the form of a signed path"}
	}
	keys, err := s.keys.get(now)
	if err != nil {
		return Principal{}, errFile
	}
	if !s.signed(keys, &given, path) {
		return Principal{}, &Refused{"the package path was not signed here"}
	}
	if at := s.clock.Steady(now); !at.Before(given.expiry()) {
		return Principal{}, &Refused{"the signed path of " + given.kind().String() + " " + given.id() + " has expired"}
	} else if given.expiry().After(at.Add(2*s.cfg.Life + maxSkew)) {
		return Principal{}, &Refused{"the package path was signed in the future: the clock was wrong, or auth.signed_paths longer"}
	}
	if given.kind() == ByIssuer {
		return Principal{
			Kind: ByIssuer, ID: given.id(), Until: given.expiry(), Grant: Grant{Scopes: []Scope{{m.Host, m.Namespace}}},
		}, nil
	}
	if s.cfg.Tokens == nil {
		return Principal{}, &Refused{"there are no tokens"}
	}
	p, err := s.cfg.Tokens.byID(given.id(), now)
	if err == nil && !p.MayRead(m) {
		err = modproxy.ErrNotFound
	}
	p.Admin = false // the path is for fetching a package
	return p, err
}

// signed reports whether one of the keys made the MAC. The previous one may have, of what does not last longer
// than what it last signed.
func (s *Signer) signed(keys *keys, given *segment, path string) bool {
	if hmac.Equal(given[macAt:], s.mac(keys.Current, given, path)) {
		return true
	}
	return keys.Previous != nil && hmac.Equal(given[macAt:], s.mac(keys.Previous, given, path)) &&
		!given.expiry().After(keys.Replaced.Add(2*s.cfg.Life+maxSkew))
}
