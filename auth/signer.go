package auth

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	minLife = time.Minute
	maxLife = 7 * 24 * time.Hour
	maxSkew = time.Minute // between the clocks of processes that share a key
)

// SignerConfig configures a [Signer].
type SignerConfig struct {
	// Life is the length of a signing period. A path is valid until the end of the period after the one in which it was signed.
	// Within a period it stays the same, so that caches can use it. From 1 minute to 7 days; 0 means 1 hour.
	Life time.Duration
	// Tokens are the tokens for which paths are signed. Nil: no path that was signed for a token is valid.
	Tokens *Tokens
	// Rules identifies the rights of principals of kind [ByIssuer]. A path is valid only under the Rules under which it was
	// signed.
	Rules string
	// Groups are all groups of principals of kind [ByIssuer]. Their order must be the same under the same Rules. A path
	// identifies a principal with the groups that it had when the path was signed.
	Groups []string
}

// Check returns [modproxy.ErrInvalid] if Life is out of its bounds.
func (c SignerConfig) Check() error {
	if c.Life != 0 && (c.Life < minLife || c.Life > maxLife || c.Life%time.Second != 0) {
		return fmt.Errorf("%w: life of signed paths %v: want whole seconds, %v to %v", modproxy.ErrInvalid, c.Life, minLife, maxLife)
	}
	return nil
}

// Signer signs package paths, because clients send no credential when they download a package. It is safe for concurrent use.
//
// A signed path is valid for the principal and the package for which it was signed, until it expires. A path for a token also
// ends with the token, and with the scope that covers the module. A principal of an issuer cannot be looked up again. While the
// process runs, changes of the wall clock neither lengthen nor shorten the validity of a path.
type Signer struct {
	cfg  SignerConfig
	keys *file[keys]
}

// OpenSigner opens the key at path, 32 random bytes. It creates the key if it does not exist.
func OpenSigner(ctx context.Context, path string, cfg SignerConfig) (*Signer, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	cfg.Life = cmp.Or(cfg.Life, time.Hour)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Mode()&0o007 != 0:
		return nil, fmt.Errorf("%s: all users of this machine can read or change it: "+
			"run chmod o= %s, and modproxy key rotate twice", path, path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f, err := openKeys(path)
	if err == nil {
		err = f.change(ctx, func(old *keys) (*keys, error) {
			if old.Current != nil {
				return nil, nil
			}
			return &keys{Current: newKey()}, nil
		})
	}
	return &Signer{cfg, f}, err
}

// Check returns the reason why paths cannot be signed or checked, or nil if they can.
func (s *Signer) Check() error {
	_, err := s.keys.get(time.Now())
	return err
}

// Path returns path with a segment in front that is signed for p. path is that of a package that p may read, from the root and
// in its canonical spelling. now is from [time.Now]. The error is [modproxy.ErrUnauthorized] for any kind but [ByToken] and
// [ByIssuer], and [modproxy.ErrUnavailable] while the key cannot be used.
func (s *Signer) Path(p Principal, path string, now time.Time) (string, error) {
	if p.Kind != ByToken && p.Kind != ByIssuer || !isID(p.ID) {
		return "", &Refused{Why: "no package path is signed for " + p.String()}
	}
	keys, err := s.keys.get(now)
	if err != nil {
		return "", errFile
	}
	life := int64(s.cfg.Life / time.Second)
	expiry := (s.keys.clock.Steady(now).Unix()/life + 2) * life
	made := segment{fixed: fixed{0: segmentVersion, 1: byte(p.Kind)}}
	binary.BigEndian.PutUint32(made.fixed[expiryAt:], uint32(expiry))
	copy(made.fixed[idAt:], p.ID)
	if p.Kind == ByIssuer {
		made.groups = s.encodeGroups(p.Groups)
	}
	s.mac(made.fixed[macAt:macAt], &keys.macs[0], &made, path)
	var few [2 * segmentBytes]byte
	signed := segmentCoding.AppendEncode(few[:0], append(made.fixed[:], made.groups...))
	return "/" + segmentPrefix + string(signed) + path, nil
}

// encodeGroups returns one bit for each of the signer's groups. It is set if the group is in groups.
func (s *Signer) encodeGroups(groups []string) []byte {
	bits := make([]byte, (len(s.cfg.Groups)+7)/8)
	for i, name := range s.cfg.Groups {
		if slices.Contains(groups, name) {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return bits
}

// decodeGroups is the inverse of encodeGroups.
func (s *Signer) decodeGroups(bits []byte) (groups []string) {
	for i, name := range s.cfg.Groups {
		if i/8 < len(bits) && bits[i/8]&(1<<(i%8)) != 0 {
			groups = append(groups, name)
		}
	}
	return groups
}

// mac appends the HMAC-SHA-256 of a segment and a path. The parts are joined unambiguously, see appendPart.
func (s *Signer) mac(to []byte, by *macs, of *segment, path string) []byte {
	m := by.Get().(*mac)
	defer by.Put(m)
	text := appendPart(m.text[:0], "modproxy package path")
	for _, part := range [][]byte{of.fixed[:expiryAt], of.fixed[expiryAt:idAt], of.fixed[idAt:macAt]} {
		text = appendPart(text, part)
	}
	if of.kind() == ByIssuer {
		text = appendPart(text, s.cfg.Rules)
	}
	if len(of.groups) > 0 {
		text = appendPart(text, of.groups)
	}
	m.text = appendPart(text, path)
	m.Reset()
	m.Write(m.text)
	m.text = m.Sum(m.text[:0])
	return append(to, m.text...)
}

// macs is a pool of HMACs with one key. Their setup takes longer than the rest.
type macs struct{ sync.Pool }

type mac struct {
	hash.Hash
	text []byte
}

func (m *macs) use(key []byte) {
	m.New = func() any { return &mac{hmac.New(sha256.New, key), make([]byte, 0, 512)} }
}

// appendPart appends part with its length, so that different sequences of parts have different results.
func appendPart[T string | []byte](to []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(part))), part...)
}

// Redeem returns the principal for which the segment text in front of path was signed. The principal is valid for this package
// only. path is that of a package of m, in its canonical spelling, and now is from [time.Now]. If the principal may no longer
// read m, it is returned with [modproxy.ErrNotFound]. Other errors are a [*Refused], and [modproxy.ErrUnavailable] while a file
// cannot be used.
func (s *Signer) Redeem(text, path string, m modproxy.Address, now time.Time) (Principal, error) {
	given, ok := parseSegment(text)
	if !ok {
		return Principal{}, &Refused{Why: "not the form of a signed path"}
	}
	keys, err := s.keys.get(now)
	if err != nil {
		return Principal{}, errFile
	}
	if !s.signed(keys, &given, path) {
		return Principal{}, &Refused{Why: "the package path was not signed here"}
	}
	at := s.keys.clock.Steady(now)
	if !at.Before(given.expiry()) {
		return Principal{}, &Refused{Why: "the signed path of " + given.kind().String() + " " + given.id() + " has expired"}
	}
	if given.expiry().After(at.Add(2*s.cfg.Life + maxSkew)) {
		return Principal{}, &Refused{Why: "the package path was signed in the future: the clock was wrong, or auth.signed_paths longer"}
	}
	if given.kind() == ByIssuer {
		one := Grant{Scopes: []Scope{{m.Host, m.Namespace}}}
		return Principal{Kind: ByIssuer, ID: given.id(), Groups: s.decodeGroups(given.groups), Until: given.expiry(), Grant: one}, nil
	}
	if s.cfg.Tokens == nil {
		return Principal{}, &Refused{Why: "no token exists"}
	}
	p, err := s.cfg.Tokens.byID(given.id(), now)
	if err == nil && !p.MayRead(m) {
		err = modproxy.ErrNotFound
	}
	p.Admin, p.Refresh = false, false // a path only allows the download of a package
	return p, err
}

// signed reports whether one of the keys made the MAC. The previous key counts only for paths that it may have signed before
// its replacement.
func (s *Signer) signed(keys *keys, given *segment, path string) bool {
	var sum [sha256.Size]byte
	by := func(m *macs) bool { return hmac.Equal(given.fixed[macAt:], s.mac(sum[:0], m, given, path)) }
	return by(&keys.macs[0]) ||
		keys.Previous != nil && by(&keys.macs[1]) && !given.expiry().After(keys.Replaced.Add(2*s.cfg.Life+maxSkew))
}

// A segment is s_ and the unpadded URL-safe base64 of
//
//	1 byte   the version of the format, 1
//	1 byte   the kind of the principal
//	4 bytes  the expiry, in seconds since 1970, big-endian
//	16 bytes the id of the principal
//	32 bytes HMAC-SHA-256
//	1 bit    for each group of the issuers, set if the principal is in it, padded to bytes; only for principals of an issuer
//
// No hostname has an underscore, and no route of the proxy begins with s_.
const (
	segmentPrefix  = "s_"
	segmentVersion = 1
	expiryAt       = 2
	idAt           = expiryAt + 4
	macAt          = idAt + idLength
	segmentBytes   = macAt + 32
	segmentLength  = len(segmentPrefix) + (segmentBytes*8+5)/6
)

var segmentCoding = base64.RawURLEncoding.Strict()

// segment is a decoded segment.
type segment struct {
	fixed
	groups []byte
}

type fixed [segmentBytes]byte

func parseSegment(text string) (s segment, ok bool) {
	if len(text) < segmentLength || !strings.HasPrefix(text, segmentPrefix) {
		return s, false
	}
	all, err := segmentCoding.DecodeString(text[len(segmentPrefix):])
	if err != nil || len(all) < segmentBytes || all[0] != segmentVersion {
		return s, false
	}
	s.groups = all[copy(s.fixed[:], all):]
	return s, len(s.groups) == 0 || s.kind() == ByIssuer
}

func (s *fixed) kind() Kind { return Kind(s[1]) }

func (s *fixed) expiry() time.Time {
	return time.Unix(int64(binary.BigEndian.Uint32(s[expiryAt:])), 0)
}

func (s *fixed) id() string { return string(s[idAt:macAt]) }

// CutSegment cuts a segment, valid or not, off the beginning of a path from the root. Without a segment, rest is path.
func CutSegment(path string) (segment, rest string) {
	if !strings.HasPrefix(path, "/"+segmentPrefix) {
		return "", path
	}
	segment, _, _ = strings.Cut(path[1:], "/")
	return segment, path[1+len(segment):]
}

// Redact returns a path, or a text with parts of a request, without segments, valid or not. It also removes anything that looks
// like a token or a JSON Web Token, which people may have put there by mistake.
func Redact(text string) string {
	segment, rest := CutSegment(text)
	if hasSecretMark(rest) {
		rest = secretPattern.ReplaceAllString(rest, "$1$2$3[redacted]")
	}
	if segment != "" {
		rest = "/" + segmentPrefix + "[redacted]" + rest
	}
	return rest
}

// hasSecretMark reports whether text contains one of secretMarks, ignoring case.
func hasSecretMark(text string) bool {
	if strings.IndexByte(text, '_') < 0 && strings.IndexByte(text, 'j') < 0 && strings.IndexByte(text, 'J') < 0 {
		return false // each mark contains one of these bytes; most texts stop here
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc(secretMarks, func(mark string) bool { return strings.Contains(text, mark) })
}

// secretPattern matches a token from its id to its end, most of a segment or of a token, or a JSON Web Token with part of its
// signature, ignoring case. Every match in lower case contains one of secretMarks.
var (
	secretPattern = regexp.MustCompile(`(` + tokenPrefix + `)[a-z2-7]{16}_[A-Za-z0-9_-]+` +
		`|(` + segmentPrefix + `|` + tokenPrefix + `)[A-Za-z0-9_-]{50,}` +
		`|([Ee][Yy][Jj])[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)
	secretMarks = []string{segmentPrefix, tokenPrefix, "eyj"}
)

const keyLength = 32

// keys sign package paths.
type keys struct {
	Current  []byte    `json:"current"`            // signs
	Previous []byte    `json:"previous,omitempty"` // checks what it signed before its replacement
	Replaced time.Time `json:"replaced,omitzero"`

	macs [2]macs // for Current and Previous
}

func (k *keys) check() error {
	if len(k.Current) != keyLength || len(k.Previous) != 0 && len(k.Previous) != keyLength {
		return errDamaged
	}
	k.macs[0].use(k.Current)
	k.macs[1].use(k.Previous)
	return nil
}

func openKeys(path string) (*file[keys], error) {
	return openFile(path, "key of the package paths", "modproxy key 1", (*keys).check)
}

func newKey() []byte {
	key := make([]byte, keyLength)
	rand.Read(key) // rand.Read never fails
	return key
}

// RotateKey replaces the key at path, in every process that has it open. Earlier signatures stay valid until they expire, but
// not beyond another rotation. now is the wall clock's time. The error is [modproxy.ErrUnavailable].
func RotateKey(ctx context.Context, path string, now time.Time) error {
	f, err := openKeys(path)
	if err != nil {
		return f.wrong(err)
	}
	return f.change(ctx, func(old *keys) (*keys, error) {
		if old.Current == nil {
			return nil, f.wrong(&fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist})
		}
		return &keys{Current: newKey(), Previous: old.Current, Replaced: now.UTC()}, nil
	})
}
