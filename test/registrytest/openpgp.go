package registrytest

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// pgpKey is an OpenPGP key of a publisher. Equal names have equal keys and signatures.
type pgpKey struct{ *openpgp.Entity }

// newKey returns a self-signed key. If the name begins with "expired", the key was valid for an hour.
func newKey(name string) (pgpKey, error) {
	if name == "rsa" {
		return rsaKey()
	}
	config := pgpConfig(name)
	if strings.HasPrefix(name, "expired") {
		config.KeyLifetimeSecs = 3600
	}
	entity, err := openpgp.NewEntity(name, "", name+"@example.com", config)
	return pgpKey{entity}, err
}

// rsaKey returns a key of the kind that every version of the clients reads. It is random.
var rsaKey = sync.OnceValues(func() (pgpKey, error) {
	entity, err := openpgp.NewEntity("rsa", "", "rsa@example.com", &packet.Config{Time: func() time.Time { return modified }})
	return pgpKey{entity}, err
})

// pgpConfig replaces randomness and the clock with values from seed.
func pgpConfig(seed string) *packet.Config {
	salted := false
	return &packet.Config{
		Rand:                                  rand.NewChaCha8(sha256.Sum256([]byte(seed))),
		Time:                                  func() time.Time { return modified },
		Algorithm:                             packet.PubKeyAlgoEdDSA,
		NonDeterministicSignaturesViaNotation: &salted,
	}
}

func (k pgpKey) id() string { return k.PrimaryKey.KeyIdString() }

// sign returns a detached signature, not armored.
func (k pgpKey) sign(data []byte) ([]byte, error) {
	var signature bytes.Buffer
	err := openpgp.DetachSign(&signature, k.Entity, bytes.NewReader(data), pgpConfig("signature"))
	return signature.Bytes(), err
}

// Sign signs data with the key of that name in fixtures. The signature is not armored; the public key is.
func Sign(name string, data []byte) (signature []byte, key string, err error) {
	signer, err := newKey(name)
	if err != nil {
		return nil, "", err
	}
	if signature, err = signer.sign(data); err != nil {
		return nil, "", err
	}
	var public bytes.Buffer
	if err := signer.Serialize(&public); err != nil {
		return nil, "", err
	}
	key, err = armored(openpgp.PublicKeyType, public.Bytes())
	return signature, key, err
}

// listedKey returns a key as registries list it, or the special values for "null" and "broken".
func listedKey(name string) (any, error) {
	if name == "null" {
		return nil, nil
	}
	key, err := newKey(name)
	if err != nil {
		return nil, err
	}
	var public bytes.Buffer
	if err := key.Serialize(&public); err != nil {
		return nil, err
	}
	if name == "broken" {
		public.Truncate(public.Len() / 2)
	}
	text, err := armored(openpgp.PublicKeyType, public.Bytes())
	return map[string]string{
		"key_id": key.id(), "ascii_armor": text, "trust_signature": "", "source": "", "source_url": "",
	}, err
}

func armored(kind string, data []byte) (string, error) {
	var text bytes.Buffer
	w, err := armor.Encode(&text, kind, nil)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(data); err != nil {
		return "", err
	}
	err = w.Close()
	return text.String() + "\n", err
}
