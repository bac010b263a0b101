package registrytest

import (
	"crypto/ed25519"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"sync"
)

// pgpKey is an OpenPGP key of version 4 (RFC 4880; draft-ietf-openpgp-rfc4880bis
// for Ed25519), which signs what the providers of a fixture come with. It is the
// same every time.
type pgpKey struct {
	private     ed25519.PrivateKey
	fingerprint []byte
	armored     string // the public key, as registries give it
}

var signer = sync.OnceValue(newSigner)

const (
	pgpEdDSA  = 22
	pgpSHA256 = 8
)

func newSigner() *pgpKey {
	k := &pgpKey{private: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	body := append([]byte{4}, pgpTime()...)
	body = append(body, pgpEdDSA, 9, 0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01)
	body = append(body, mpi(append([]byte{0x40}, k.private.Public().(ed25519.PublicKey)...))...)
	hashed := append([]byte{0x99, byte(len(body) >> 8), byte(len(body))}, body...)
	sum := sha1.Sum(hashed)
	k.fingerprint = sum[:]
	const user = "A publisher <publisher@example.com>"
	certified := append(hashed, 0xb4, 0, 0, 0, byte(len(user)))
	certified = append(certified, user...)
	public := append(packet(6, body), packet(13, []byte(user))...)
	k.armored = armor(append(public, k.sign(0x13, certified)...))
	return k
}

// sign makes a signature packet of a kind over data.
func (k *pgpKey) sign(kind byte, data []byte) []byte {
	subpackets := append([]byte{5, 2}, pgpTime()...)
	subpackets = append(subpackets, 2, 27, 0x03) // may certify and sign
	subpackets = append(subpackets, 22, 33, 4)
	subpackets = append(subpackets, k.fingerprint...)
	head := append([]byte{4, kind, pgpEdDSA, pgpSHA256, 0, byte(len(subpackets))}, subpackets...)
	message := append(append([]byte{}, data...), head...)
	message = append(message, 4, 0xff, 0, 0, 0, byte(len(head)))
	digest := sha256.Sum256(message)
	signature := ed25519.Sign(k.private, digest[:])
	body := append(head, 0, 10, 9, 16) // the issuer, not hashed
	body = append(body, k.fingerprint[12:]...)
	body = append(body, digest[:2]...)
	body = append(body, mpi(signature[:32])...)
	return packet(2, append(body, mpi(signature[32:])...))
}

// pgpTime is when everything was made and signed.
func pgpTime() []byte { return binary.BigEndian.AppendUint32(nil, uint32(modified.Unix())) }

// packet is a packet with a body of less than 192 bytes.
func packet(tag byte, body []byte) []byte {
	return append([]byte{0xc0 | tag, byte(len(body))}, body...)
}

// mpi is a number with its length in bits before it.
func mpi(number []byte) []byte {
	for len(number) > 0 && number[0] == 0 {
		number = number[1:]
	}
	length := 0
	if len(number) > 0 {
		length = 8*(len(number)-1) + bits.Len8(number[0])
	}
	return append([]byte{byte(length >> 8), byte(length)}, number...)
}

func armor(data []byte) string {
	crc := uint32(0xb704ce)
	for _, b := range data {
		crc ^= uint32(b) << 16
		for range 8 {
			if crc <<= 1; crc&0x1000000 != 0 {
				crc ^= 0x1864cfb
			}
		}
	}
	text := "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n"
	for encoded := base64.StdEncoding.EncodeToString(data); encoded != ""; {
		n := min(64, len(encoded))
		text, encoded = text+encoded[:n]+"\n", encoded[n:]
	}
	check := base64.StdEncoding.EncodeToString([]byte{byte(crc >> 16), byte(crc >> 8), byte(crc)})
	return text + "=" + check + "\n-----END PGP PUBLIC KEY BLOCK-----\n"
}
