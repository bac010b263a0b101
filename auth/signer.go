package auth

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	minLife = time.Minute
	maxLife = 7 * 24 * time.Hour
	maxSkew = time.Minute // between the clocks of processes that share a key
)

// SignerConfig is how a [Signer] is set up.
type SignerConfig struct {
	// Life is the length of the periods into which time is cut. A path is good to the end of the period after the
	// one in which it was signed, so a client that asks again within a period is given the same path, which caches
	// on its side know. From a minute to 7 days; 0 is an hour.
	Life time.Duration
	// Tokens are those that paths are signed for. Nil: no path that was signed for a token is good.
	Tokens *Tokens
	// Rules stands for what principals known [ByIssuer] may do: paths that were signed under other rules are not
	// good.
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
// A signed path is good for the principal and the package that it was signed for, until it expires. For a token it
// ends with the token, and with the scope that covers the module. A principal known by an issuer cannot be looked
// up again. While the process runs, turning the wall clock makes a path good for neither longer nor shorter.
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
	cfg.Life = cmp.Or(cfg.Life, time.Hour)
	clock := NewClock()
	keys, err := openKeys(ctx, path, clock.start)
	return &Signer{cfg, clock, keys}, err
}

// Check returns why no path can be signed or is good; nil if it can.
func (s *Signer) Check() error {
	_, err := s.keys.get(time.Now())
	return err
}

// Path returns path with the segment that is signed for p before it. path is that of a package which p may read,
// from the root and in its one spelling. now is from [time.Now].
//
// Errors: [modproxy.ErrUnauthorized] for [Nobody], [modproxy.ErrUnavailable] while the key cannot be used.
func (s *Signer) Path(p Principal, path string, now time.Time) (string, error) {
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
	return "/" + segmentPrefix + segmentCoding.EncodeToString(made[:]) + path, nil
}

// mac returns the HMAC-SHA-256 of a segment before a path: over what makes it one thing and no other, each part
// behind its length.
func (s *Signer) mac(key []byte, of *segment, path string) []byte {
	text := appendPart(make([]byte, 0, 512), "modproxy package path")
	for _, part := range [][]byte{of[:expiryAt], of[expiryAt:idAt], of[idAt:macAt]} {
		text = appendPart(text, part)
	}
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
		one := Grant{Scopes: []Scope{{m.Host, m.Namespace}}}
		return Principal{Kind: ByIssuer, ID: given.id(), Until: given.expiry(), Grant: one}, nil
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
	by := func(key []byte) bool { return hmac.Equal(given[macAt:], s.mac(key, given, path)) }
	return by(keys.Current) ||
		keys.Previous != nil && by(keys.Previous) && !given.expiry().After(keys.Replaced.Add(2*s.cfg.Life+maxSkew))
}
