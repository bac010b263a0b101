package auth

import (
	"crypto/hmac"
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
	// Life is how long a signed path is good at least; at most it is twice as
	// long. Time is cut into periods of this length, and a path is good
	// to the end of the period after the one in which it was signed. So who asks
	// again within a period is given the same path, which caches of the client's
	// side know. 0 is an hour; at least a minute, at most 7 days.
	Life time.Duration
	// Tokens are asked, when a path comes back, whether the token of who it was
	// signed for is still good. Nil: no path that was signed for a token is.
	Tokens *Tokens
	// Rules stands for what principals known [ByIssuer] may do: paths that were
	// signed for them under other rules are not good.
	Rules string
}

// Check is nil if Life is one of those that it may be, else [modproxy.ErrInvalid].
func (c SignerConfig) Check() error {
	if c.Life != 0 && (c.Life < minLife || c.Life > maxLife || c.Life%time.Second != 0) {
		return fmt.Errorf("%w: life of signed paths %v: want whole seconds, %v to %v", modproxy.ErrInvalid, c.Life, minLife, maxLife)
	}
	return nil
}

// Signer signs package paths, for clients that show no credential when they fetch
// a package. It is safe for concurrent use.
//
// A signed path is good for the principal and the package that it was signed for,
// until it expires. For a token it ends with the token, and with the scope that
// covers the module; who is known by an issuer cannot be asked about again, so
// their path is good for its one package until it expires.
//
// Time is counted from the start of the process: while it runs, turning the wall
// clock makes a path good for neither longer nor shorter.
type Signer struct {
	cfg   SignerConfig
	clock Clock
	keys  *watched[*keys]
}

// OpenSigner opens the key at path, 32 random bytes, and makes it if there is none.
func OpenSigner(path string, cfg SignerConfig) (*Signer, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.Life == 0 {
		cfg.Life = defaultLife
	}
	s := &Signer{cfg: cfg, clock: NewClock()}
	var err error
	s.keys, err = openKeys(path, s.clock.start)
	return s, err
}

// Check is nil, or why no path can be signed or is good.
func (s *Signer) Check() error {
	if _, err := s.keys.get(time.Now()); err != nil {
		return fmt.Errorf("%w: key of the package paths: %w", modproxy.ErrUnavailable, err)
	}
	return nil
}

// Sign makes the segment that p's client puts before path. path is that of a
// package which p may read, from the root and in its one spelling. now is from
// [time.Now].
//
// Errors: [modproxy.ErrUnauthorized] unless p is known [ByToken] or [ByIssuer],
// [modproxy.ErrUnavailable] while the key cannot be used.
func (s *Signer) Sign(p Principal, path string, now time.Time) (string, error) {
	if p.Kind != ByToken && p.Kind != ByIssuer || !isID(p.ID) {
		return "", &Refused{"nothing is signed for " + p.String()}
	}
	keys, err := s.keys.get(now)
	if err != nil {
		return "", errFile
	}
	made := segment{0: segmentVersion, 1: byte(p.Kind)}
	binary.BigEndian.PutUint32(made[expiryAt:], uint32(s.expiry(now).Unix()))
	copy(made[idAt:], p.ID)
	mac := s.mac(keys.current, &made, path)
	copy(made[macAt:], mac[:])
	return made.text(), nil
}

// Path is path as p is to be told it: signed, or as it is where no credential is
// wanted. Its errors are those of Sign.
func (s *Signer) Path(p Principal, path string, now time.Time) (string, error) {
	if p.Kind == Anonymous {
		return path, nil
	}
	segment, err := s.Sign(p, path, now)
	return "/" + segment + path, err
}

// expiry is when what is signed now expires.
func (s *Signer) expiry(now time.Time) time.Time {
	life := int64(s.cfg.Life / time.Second)
	return time.Unix((s.clock.Steady(now).Unix()/life+2)*life, 0)
}

// mac is the MAC of a segment before a path: over what makes it one thing and no
// other, each part behind its length.
func (s *Signer) mac(key *macKey, of *segment, path string) [macLength]byte {
	text := make([]byte, 0, 512)
	text = appendPart(text, "modproxy package path")
	text = appendPart(text, of[:expiryAt])
	text = appendPart(text, of[expiryAt:idAt])
	text = appendPart(text, of[idAt:macAt])
	if of.kind() == ByIssuer {
		text = appendPart(text, s.cfg.Rules)
	}
	return key.mac(appendPart(text, path))
}

// appendPart appends so that no other sequence of parts gives the same.
func appendPart[T string | []byte](to []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(part))), part...)
}

// Redeem says for whom the segment before path was signed: path is that of a
// package of m, in its one spelling, and now is from [time.Now]. The principal is
// good for this package only.
//
// Errors: [modproxy.ErrNotFound] if the principal, which is then known all the same,
// may no longer read m, a [*Refused] for whatever else is wrong with the segment, and
// [modproxy.ErrUnavailable] while a file cannot be used.
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
	return s.bearer(&given, m, now)
}

// signed reports whether one of the keys made the MAC. The previous one may have,
// of what does not last longer than what it last signed.
func (s *Signer) signed(keys *keys, given *segment, path string) bool {
	mac := s.mac(keys.current, given, path)
	if hmac.Equal(given[macAt:], mac[:]) {
		return true
	}
	if keys.previous == nil {
		return false
	}
	mac = s.mac(keys.previous, given, path)
	return hmac.Equal(given[macAt:], mac[:]) && !given.expiry().After(keys.replaced.Add(2*s.cfg.Life+maxSkew))
}

// bearer is the principal that a segment was signed for.
func (s *Signer) bearer(given *segment, m modproxy.Module, now time.Time) (Principal, error) {
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
	p.Admin = false // the path was given to who fetches a package
	return p, err
}
