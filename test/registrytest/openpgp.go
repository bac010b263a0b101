package registrytest

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// pgpKey is an OpenPGP key of a publisher, made from its name: it is the same every time, and so is what it signs.
type pgpKey struct {
	entity  *openpgp.Entity
	armored string // the public key, as registries give it
}

var signer = sync.OnceValue(func() *pgpKey {
	k, err := newKey("publisher")
	if err != nil {
		panic(err) // the library is another
	}
	return k
})

// newKey makes a key and has it sign itself.
func newKey(name string) (*pgpKey, error) {
	entity, err := openpgp.NewEntity(name, "", name+"@example.com", pgpConfig(name))
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	w, err := armor.Encode(&text, openpgp.PublicKeyType, nil)
	if err != nil {
		return nil, err
	}
	if err := entity.Serialize(w); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &pgpKey{entity, text.String() + "\n"}, nil
}

// sign makes a detached signature, which is not armored.
func (k *pgpKey) sign(data []byte) ([]byte, error) {
	var signature bytes.Buffer
	err := openpgp.DetachSign(&signature, k.entity, bytes.NewReader(data), pgpConfig("signature"))
	return signature.Bytes(), err
}

// pgpConfig has seed in the place of chance and of the clock.
func pgpConfig(seed string) *packet.Config {
	salted := false
	return &packet.Config{
		Rand:                                  rand.NewChaCha8(sha256.Sum256([]byte(seed))),
		Time:                                  func() time.Time { return modified },
		Algorithm:                             packet.PubKeyAlgoEdDSA,
		NonDeterministicSignaturesViaNotation: &salted,
	}
}
