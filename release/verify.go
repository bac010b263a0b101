package release

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/modproxy/modproxy"
)

// Signer identifies the signer of a release.
type Signer struct {
	Key    string    // the fingerprint of the primary key, in upper-case hexadecimal: 40 digits for version 4
	Subkey string    // the fingerprint of the subkey that signed; empty if the primary key did
	Time   time.Time // the time in the signature
	// Keys has Key and every other listed key that made one of the first signatures, ignoring all times. A publisher who
	// changes keys may sign with both; clients check only the first key that matches.
	Keys modproxy.Keys
	// KeyExpired reports that the key has expired, or that its creation time is in the future. Both clients install such
	// releases. OpenTofu warns, and refuses them with OPENTOFU_ENFORCE_GPG_EXPIRATION=true.
	KeyExpired bool
}

// SignatureError is a [modproxy.ErrInvalid] about an invalid signature.
type SignatureError struct {
	Reason Reason
	Err    error // what is wrong; not nil
}

// Reason is the reason why a signature is invalid.
type Reason string

// The reasons.
const (
	NoKeys        Reason = "no keys"        // the registry lists no key
	UnknownIssuer Reason = "unknown issuer" // no listed key made the signature
	Expired       Reason = "expired"        // the signature has expired; Terraform refuses it
	Future        Reason = "future"         // the signature is from the future; Terraform refuses it
	Revoked       Reason = "revoked"        // the key is revoked
	Armored       Reason = "armored"        // the signature is armored instead of binary
	Damaged       Reason = "damaged"        // the signature or a key cannot be read, or the document differs
)

func (e *SignatureError) Error() string { return "signature of SHA256SUMS: " + e.Err.Error() }

// Unwrap returns Err and [modproxy.ErrInvalid].
func (e *SignatureError) Unwrap() []error { return []error{e.Err, modproxy.ErrInvalid} }

func refuse(reason Reason, format string, args ...any) error {
	return &SignatureError{reason, fmt.Errorf(format, args...)}
}

// Verify returns the signer of a SHA256SUMS document, verified at the time now. The signature is detached and binary.
// Keys are tried in order, as by the clients (findSigningKey in package_authentication.go):
//
//   - A key that did not make the signature is skipped.
//   - If a valid key made it, its Signer is returned.
//   - If an expired key made it, the later keys are tried first. If none of them returns a Signer, that of the expired key is
//     returned, with KeyExpired.
//   - Any other failure, such as a revoked or unreadable key, ends the search with its error.
//
// Time and memory are bounded for all input. Hostile keys can take a few seconds of processor time for each call; Verify does not
// limit the number of concurrent calls.
//
// Errors: a [*SignatureError].
func Verify(document, signature []byte, keys []Key, now time.Time) (Signer, error) {
	if now.IsZero() {
		return Signer{}, refuse(Damaged, "the time of verification is missing")
	}
	return verify(document, signature, keys, now)
}

// maxSignatures is the number of signatures whose signers are determined.
const maxSignatures = 4

// verify implements Verify. At the zero time, it ignores times only: package openpgp checks times last.
func verify(document, signature []byte, keys []Key, now time.Time) (Signer, error) {
	s, err := verifyFirst(document, signature, keys, now)
	if err == nil {
		s.Keys, err = modproxy.NewKeys(append(signers(document, signature, keys), s.Key)...)
	}
	if err != nil {
		return Signer{}, err
	}
	return s, nil
}

// signers returns the keys that made one of the first signatures, ignoring all times. It skips the other keys, and keys
// that were revoked at any time.
func signers(document, signature []byte, keys []Key) (list []string) {
	var all [][]byte
	for start := 0; start < len(signature) && len(all) < maxSignatures; {
		_, header, length, ok := packetHeader(signature[start:])
		end := start + header + int(length)
		if !ok || length > uint64(len(signature)) || end > len(signature) {
			break
		}
		all = append(all, signature[start:end])
		start = end
	}
	budget := newBudget()
	for _, k := range keys {
		ring, err := budget.read(k.Armor)
		if err != nil {
			continue
		}
		ring = slices.DeleteFunc(ring, func(e *openpgp.Entity) bool { return len(e.Revocations) > 0 })
		for _, one := range all {
			if s, err := verifyBy(ring, document, one, time.Time{}); err == nil {
				list = append(list, s.Key)
			}
		}
	}
	return list
}

// verifyFirst is verify without Signer.Keys.
func verifyFirst(document, signature []byte, keys []Key, now time.Time) (Signer, error) {
	if len(keys) == 0 {
		return Signer{}, refuse(NoKeys, "the registry lists no key that can be read")
	}
	if len(keys) > maxKeys {
		return Signer{}, refuse(Damaged, "more than the %d keys that are allowed", maxKeys)
	}
	signature, err := leadingSignatures(signature)
	if err != nil {
		return Signer{}, err
	}
	budget := newBudget()
	var expired *Signer
	for i, k := range keys {
		ring, err := budget.read(k.Armor)
		if err != nil {
			return Signer{}, refuse(Damaged, "key %d of %d cannot be read: %w", i+1, len(keys), err)
		}
		signer, err := verifyBy(ring, document, signature, now)
		switch {
		case errors.Is(err, pgperrors.ErrUnknownIssuer):
		case err != nil:
			return Signer{}, err
		case !signer.KeyExpired || now.IsZero():
			return signer, nil
		case expired == nil:
			expired = &signer
		}
	}
	if expired != nil {
		return *expired, nil
	}
	return Signer{}, refuse(UnknownIssuer, "it was not made by a key that the registry lists")
}

// Signer returns the signer of r, ignoring all times. Its error is that of [Verify].
func (r *Release) Signer() (Signer, error) { return verify(r.Sums, r.Signature, r.Keys, time.Time{}) }

// leadingSignatures returns the signature packets at the beginning of signature. The clients ignore data after the
// signature that counts, such as a line break.
func leadingSignatures(signature []byte) ([]byte, error) {
	switch {
	case len(signature) > MaxSignature:
		return nil, refuse(Damaged, "it has more than the %d bytes that are allowed", MaxSignature)
	case bytes.HasPrefix(bytes.TrimSpace(signature), []byte("-----BEGIN ")):
		return nil, refuse(Armored, "it is armored, which neither Terraform nor OpenTofu can read: want it binary (gpg --detach-sign without --armor)")
	}
	end, err := eachPacket(signature, func(tag byte, _ []byte) error {
		if tag != tagSignature {
			return fmt.Errorf("it has a packet of type %d, which is not a signature", tag)
		}
		return nil
	})
	if err != nil && end == 0 {
		return nil, refuse(Damaged, "%w", err)
	}
	return signature[:end], nil
}

// verifyBy verifies with one listed key, which may contain several keys. Its error is a SignatureError, or the error of
// package openpgp for an unknown issuer.
func verifyBy(ring openpgp.EntityList, document, signature []byte, now time.Time) (Signer, error) {
	sig, entity, err := detached(ring, document, signature, now)
	expired := errors.Is(err, pgperrors.ErrKeyExpired)
	switch {
	case expired, err == nil:
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return Signer{}, err
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return Signer{}, refuse(Revoked, "the key %X is revoked", entity.PrimaryKey.Fingerprint)
	case !errors.Is(err, pgperrors.ErrSignatureExpired):
		return Signer{}, refuse(Damaged, "%w", err)
	case now.IsZero():
	case sig.CreationTime.After(now):
		return Signer{}, refuse(Future, "it was made at %s, which is in the future; is the clock right?", stamp(sig.CreationTime))
	default:
		return Signer{}, refuse(Expired, "it was made at %s by the key %X, and has expired, or that key's own signature has",
			stamp(sig.CreationTime), entity.PrimaryKey.Fingerprint)
	}
	s := Signer{Key: fmt.Sprintf("%X", entity.PrimaryKey.Fingerprint), Time: sig.CreationTime.UTC(), KeyExpired: expired}
	if *sig.IssuerKeyId == entity.PrimaryKey.KeyId {
		return s, nil
	}
	for _, sub := range entity.Subkeys {
		if sub.PublicKey.KeyId == *sig.IssuerKeyId {
			s.Subkey = fmt.Sprintf("%X", sub.PublicKey.Fingerprint)
		}
	}
	return s, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// detached calls the function that the clients call. If a key has a signing subkey and no self-signature, that function
// panics.
func detached(ring openpgp.EntityList, document, signature []byte, now time.Time) (sig *packet.Signature, e *openpgp.Entity, err error) {
	defer recovered(&err)
	config := &packet.Config{Time: func() time.Time { return now }}
	return openpgp.VerifyDetachedSignature(ring, bytes.NewReader(document), bytes.NewReader(signature), config)
}
