package release

import (
	"bytes"
	"crypto"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/modproxy/modproxy"
)

func TestVerify(t *testing.T) {
	document := sumsOf("a.zip")
	const day, secondsOfDay = 24 * time.Hour, 86400
	e, stranger := newEntity(t, at(now)), newEntity(t, at(now))
	c := at(now)
	c.KeyLifetimeSecs = secondsOfDay
	passing := newEntity(t, c)
	c = at(now)
	c.SigLifetimeSecs = secondsOfDay
	short := sign(t, e, document, c)
	rsa := at(now)
	rsa.Algorithm, rsa.RSABits, rsa.DefaultHash = packet.PubKeyAlgoRSA, 2048, crypto.SHA512
	withRSA := newEntity(t, rsa)
	withSubkey := newEntity(t, at(now))
	if err := withSubkey.AddSigningSubkey(at(now)); err != nil {
		t.Fatal(err)
	}
	subkey := fmt.Sprintf("%X", withSubkey.Subkeys[len(withSubkey.Subkeys)-1].PublicKey.Fingerprint)
	revoked := newEntity(t, at(now))
	byRevoked := sign(t, revoked, document, at(now))
	if err := revoked.RevokeKey(packet.KeySuperseded, "", at(now.Add(day))); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := openpgp.ArmoredDetachSign(&text, e, bytes.NewReader(document), at(now)); err != nil {
		t.Fatal(err)
	}
	var compressed bytes.Buffer
	w, err := packet.SerializeCompressed(nopCloser{&compressed}, packet.CompressionZLIB, nil)
	if err == nil {
		_, err = w.Write(sign(t, e, document, at(now)))
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	good, expired := sign(t, e, document, at(now)), sign(t, passing, document, at(now))
	broken := Key{Armor: "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"}
	two := listed(t, stranger)
	two.Armor += "\n" + listed(t, e).Armor

	for _, c := range []struct {
		name      string
		signature []byte
		keys      []Key
		now       time.Time
		by        *openpgp.Entity
		subkey    string
		expired   bool
		reason    Reason
	}{
		{name: "good", signature: good, keys: []Key{listed(t, e)}, by: e},
		{name: "the second key", signature: good, keys: []Key{listed(t, stranger), listed(t, e)}, by: e},
		{name: "two keys in one armor", signature: good, keys: []Key{listed(t, stranger, e)}, by: e},
		{name: "of two armors the first", signature: good, keys: []Key{two}, reason: UnknownIssuer},
		{name: "RSA and SHA-512", signature: sign(t, withRSA, document, rsa), keys: []Key{listed(t, withRSA)}, by: withRSA},
		{name: "a subkey", signature: sign(t, withSubkey, document, at(now)), keys: []Key{listed(t, withSubkey)}, by: withSubkey, subkey: subkey},
		{name: "two signatures", signature: append(sign(t, stranger, document, at(now)), good...), keys: []Key{listed(t, e)}, by: e},
		{name: "the key expired", signature: expired, keys: []Key{listed(t, passing)}, now: now.Add(2 * day), by: passing, expired: true},
		{name: "the key has not yet", signature: expired, keys: []Key{listed(t, passing)}, now: now.Add(day / 2), by: passing},
		{name: "the signature expired", signature: short, keys: []Key{listed(t, e)}, now: now.Add(2 * day), reason: Expired},
		{name: "the signature has not yet", signature: short, keys: []Key{listed(t, e)}, now: now.Add(day / 2), by: e},
		{name: "from the future", signature: sign(t, e, document, at(now.Add(day))), keys: []Key{listed(t, e)}, reason: Future},
		{name: "revoked", signature: byRevoked, keys: []Key{listed(t, revoked)}, now: now.Add(2 * day), reason: Revoked},
		{name: "trouble is final", signature: byRevoked, keys: []Key{listed(t, revoked), listed(t, e)}, now: now.Add(2 * day), reason: Revoked},
		{name: "no keys", signature: good, reason: NoKeys},
		{name: "unknown issuer", signature: good, keys: []Key{listed(t, stranger)}, reason: UnknownIssuer},
		{name: "empty", keys: []Key{listed(t, e)}, reason: UnknownIssuer},
		{name: "a key that cannot be read", signature: good, keys: []Key{broken, listed(t, e)}, reason: Damaged},
		{name: "of another document", signature: sign(t, e, []byte("x"), at(now)), keys: []Key{listed(t, e)}, reason: Damaged},
		{name: "armored", signature: text.Bytes(), keys: []Key{listed(t, e)}, reason: Armored},
		{name: "cut short", signature: good[:len(good)-1], keys: []Key{listed(t, e)}, reason: Damaged},
		{name: "followed by something", signature: append(good[:len(good):len(good)], '\n'), keys: []Key{listed(t, e)}, by: e},
		{name: "followed by a packet", signature: append(good[:len(good):len(good)], compressed.Bytes()...), keys: []Key{listed(t, e)}, by: e},
		{name: "compressed", signature: compressed.Bytes(), keys: []Key{listed(t, e)}, reason: Damaged},
		{name: "a page", signature: []byte("<html>"), keys: []Key{listed(t, e)}, reason: Damaged},
		{name: "too long", signature: make([]byte, MaxSignature+1), keys: []Key{listed(t, e)}, reason: Damaged},
		{name: "too many keys", signature: good, keys: make([]Key, maxKeys+1), reason: Damaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.now.IsZero() {
				c.now = now
			}
			got, err := Verify(document, c.signature, c.keys, c.now)
			var typed *SignatureError
			if c.reason != "" {
				if !errors.As(err, &typed) || typed.Reason != c.reason || !errors.Is(err, modproxy.ErrInvalid) {
					t.Fatalf("%+v, %v: want %q", got, err, c.reason)
				}
				return
			}
			if err == nil && !got.Keys.Intersects(modproxy.Keys(got.Key)) {
				t.Errorf("%s is not in %s", got.Key, got.Keys)
			}
			got.Keys = "" // see TestVerifyAll
			want := Signer{Key: fmt.Sprintf("%X", c.by.PrimaryKey.Fingerprint), Subkey: c.subkey, Time: now, KeyExpired: c.expired}
			if err != nil || got != want {
				t.Fatalf("%+v, %v: want %+v", got, err, want)
			}
		})
	}
}

// A publisher who changes keys signs with both. All signers are returned, in any order of the listed keys.
func TestVerifyAll(t *testing.T) {
	document := sumsOf("a.zip")
	old, next, stranger, revoked := newEntity(t, at(now)), newEntity(t, at(now)), newEntity(t, at(now)), newEntity(t, at(now))
	by := func(list ...*openpgp.Entity) (signatures []byte) {
		for _, e := range list {
			signatures = append(signatures, sign(t, e, document, at(now))...)
		}
		return signatures
	}
	fromRevoked := by(revoked)
	if err := revoked.RevokeKey(packet.KeySuperseded, "", at(now)); err != nil {
		t.Fatal(err)
	}
	ofAnother := sign(t, old, []byte("x"), at(now))
	for _, c := range []struct {
		name      string
		signature []byte
		keys      []Key
		want      []*openpgp.Entity
	}{
		{"both", by(old, next), []Key{listed(t, next), listed(t, old)}, []*openpgp.Entity{old, next}},
		{"both in one armor", by(next, old), []Key{listed(t, old, next)}, []*openpgp.Entity{old, next}},
		{"one by one key twice", by(next, next), []Key{listed(t, next), listed(t, next)}, []*openpgp.Entity{next}},
		{"one that is not listed", by(stranger, next), []Key{listed(t, old), listed(t, next)}, []*openpgp.Entity{next}},
		{"one of another document", slices.Concat(by(next), ofAnother), []Key{listed(t, next), listed(t, old)}, []*openpgp.Entity{next}},
		{"one that is revoked", slices.Concat(by(next), fromRevoked), []Key{listed(t, next), listed(t, revoked)}, []*openpgp.Entity{next}},
		{"a key that cannot be read", by(next, old), []Key{listed(t, next), {Armor: "x"}, listed(t, old)}, []*openpgp.Entity{next, old}},
		{"one too many", by(stranger, stranger, stranger, next, old), []Key{listed(t, next), listed(t, old)}, []*openpgp.Entity{next}},
		{"cut short", by(next, old)[:len(by(next))+20], []Key{listed(t, next), listed(t, old)}, []*openpgp.Entity{next}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var fingerprints []string
			for _, e := range c.want {
				fingerprints = append(fingerprints, fmt.Sprintf("%X", e.PrimaryKey.Fingerprint))
			}
			want, err := modproxy.NewKeys(fingerprints...)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Verify(document, c.signature, c.keys, now); err != nil || got.Keys != want {
				t.Errorf("%+v, %v: want %s", got, err, want)
			}
			r := &Release{Sums: document, Signature: c.signature, Keys: c.keys}
			if facts, err := r.Facts(); err != nil || facts.Keys != want {
				t.Errorf("facts: %+v, %v: want %s", facts, err, want)
			}
		})
	}
}

type nopCloser struct{ *bytes.Buffer }

func (nopCloser) Close() error { return nil }

// rawPacket returns a packet of the old format with a length of four bytes.
func rawPacket(tag byte, length int, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0x80 | tag<<2 | 2}, uint32(length)), body...)
}

// number returns a number with that many bits.
func number(bits int) []byte {
	n := append(binary.BigEndian.AppendUint16(nil, uint16(bits)), bytes.Repeat([]byte{0xff}, (bits+7)/8)...)
	if bits%8 != 0 {
		n[2] = 0xff >> (8 - bits%8)
	}
	return n
}

func publicKey(algorithm byte, numbers ...int) []byte {
	body := []byte{4, 0x60, 0, 0, 0, algorithm}
	for _, bits := range numbers {
		body = append(body, number(bits)...)
	}
	return rawPacket(tagPublicKey, len(body), body)
}

// The cost of a key is bounded before package openpgp reads it.
func TestHostileKeys(t *testing.T) {
	var good bytes.Buffer
	if err := newEntity(t, at(now)).Serialize(&good); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		raw  []byte
		err  string
	}{
		{"a huge modulus", publicKey(1, maxRSA+1, 17), "number of 8193 bits"},
		{"a huge DSA key", publicKey(algorithmDSA, 3072, 3072, 3072, 3072), "number of 3072 bits"},
		{"a key that is cut short", publicKey(algorithmDSA, 3072), "cut short"},
		{"many subkeys", bytes.Repeat(rawPacket(tagPublicSubkey, 6, []byte{4, 0, 0, 0, 0, 22}), maxKeyPackets+1), "packets"},
		{"many signatures", bytes.Repeat(rawPacket(tagSignature, 1, []byte{4}), maxKeySignatures+1), "more signatures"},
		{"a long user ID", rawPacket(tagUserID, maxUserID+1, make([]byte, maxUserID+1)), "user ID"},
		{"a length beyond the end", rawPacket(tagPublicKey, 1<<31, nil), "a wrong length"},
		{"a compressed packet", rawPacket(8, 1, []byte{1}), "type 8"},
		{"a private key", rawPacket(5, 1, []byte{4}), "type 5"},
		{"an indefinite length", []byte{0x80 | tagPublicKey<<2 | 3, 4}, "damaged"},
		{"a partial length", []byte{0xc0 | tagPublicKey, 0xe1, 4, 4}, "damaged"},
		{"something behind the key", append(good.Bytes(), 0), "damaged"},
		{"nothing", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newBudget().read(armored(t, c.raw).Armor)
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// All keys of a release share one budget.
func TestBudgetIsShared(t *testing.T) {
	e := newEntity(t, at(now))
	b := newBudget()
	b.signatures = 3
	if _, err := b.read(listed(t, e).Armor); err != nil {
		t.Fatal(err)
	}
	if _, err := b.read(listed(t, e).Armor); err == nil {
		t.Error("a key of two signatures was read twice within a budget of three")
	}
}

// A key makes the clients panic if its user ID has a revocation but no self-signature, and it has a signing subkey.
func TestKeyThatCrashesClients(t *testing.T) {
	e := newEntity(t, at(now))
	if err := e.AddSigningSubkey(at(now)); err != nil {
		t.Fatal(err)
	}
	document := sumsOf("a.zip")
	signature := sign(t, e, document, at(now))
	for _, id := range e.Identities {
		revocation := &packet.Signature{
			Version: 4, SigType: packet.SigTypeCertificationRevocation, PubKeyAlgo: e.PrimaryKey.PubKeyAlgo,
			Hash: crypto.SHA256, CreationTime: now, IssuerKeyId: &e.PrimaryKey.KeyId,
		}
		if err := revocation.SignUserId(id.Name, e.PrimaryKey, e.PrivateKey, at(now)); err != nil {
			t.Fatal(err)
		}
		id.SelfSignature, id.Signatures = nil, []*packet.Signature{revocation}
	}
	_, err := Verify(document, signature, []Key{listed(t, e)}, now)
	var typed *SignatureError
	if !errors.As(err, &typed) || typed.Reason != Damaged || !strings.Contains(err.Error(), "crashed") {
		t.Errorf("error %v", err)
	}
}

// Signatures that take long to verify count several times.
func TestBudgetWeighs(t *testing.T) {
	c := at(now)
	c.Algorithm, c.Curve = packet.PubKeyAlgoECDSA, packet.CurveBrainpoolP256
	slow, b := listed(t, newEntity(t, c)), newBudget()
	if _, err := b.read(slow.Armor); err != nil || b.signatures != maxKeySignatures-2*8 {
		t.Errorf("%d left, %v", b.signatures, err)
	}
	dsa := append(publicKey(algorithmDSA, 2048, 256, 2048, 2048), bytes.Repeat(rawPacket(tagSignature, 1, []byte{4}), maxKeySignatures/4+1)...)
	if _, err := b.read(armored(t, dsa).Armor); err == nil || !strings.Contains(err.Error(), "more signatures") {
		t.Errorf("error %v", err)
	}
	b = newBudget()
	if _, err := b.read(listed(t, newEntity(t, at(now))).Armor); err != nil || b.signatures != maxKeySignatures-2 {
		t.Errorf("%d left, %v", b.signatures, err)
	}
}

func FuzzVerify(f *testing.F) {
	salted, c := false, at(now) // the same key in every process
	c.Rand, c.NonDeterministicSignaturesViaNotation = rand.NewChaCha8([32]byte{}), &salted
	e := newEntity(f, c)
	if err := e.AddSigningSubkey(c); err != nil {
		f.Fatal(err)
	}
	document := sumsOf("a.zip")
	signature := sign(f, e, document, c)
	var raw bytes.Buffer
	if err := e.Serialize(&raw); err != nil {
		f.Fatal(err)
	}
	f.Add(raw.Bytes(), signature)
	f.Add(raw.Bytes(), []byte{})
	f.Add(publicKey(1, 2048, 17), signature)
	f.Fuzz(func(t *testing.T, raw, signature []byte) {
		signer, err := Verify(document, signature, []Key{armored(t, raw)}, now)
		var typed *SignatureError
		if err != nil && !errors.As(err, &typed) {
			t.Fatalf("an error of another type: %v", err)
		}
		if err == nil && signer.Key != fmt.Sprintf("%X", e.PrimaryKey.Fingerprint) {
			t.Fatalf("signed by %+v", signer)
		}
	})
}
