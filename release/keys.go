package release

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
)

// Bounds of OpenPGP data. Reading a key verifies the signatures in it, and the publisher determines the cost of each.
const (
	maxKeySignatures = 1000 // in all keys of a release together; some count several times, see weigh
	maxKeyPackets    = 4000 // in all keys of a release together
	maxUserID        = 2048 // bytes, as for GnuPG
	maxRSA           = 8192 // bits of the modulus
	maxDSA           = 4096 // bits of p
	maxDSAGroup      = 512  // bits of q
)

// Packet types and public-key algorithms (RFC 9580, sections 5 and 9.1).
const (
	tagSignature     = 2
	tagPublicKey     = 6
	tagMarker        = 10
	tagTrust         = 12
	tagUserID        = 13
	tagPublicSubkey  = 14
	tagUserAttribute = 17

	algorithmDSA   = 17
	algorithmECDSA = 19
	brainpool      = "\x2b\x24\x03\x03\x02\x08\x01\x01" // begins the object identifiers of its curves
)

// A budget is the remaining cost that the keys of one release may have.
type budget struct {
	signatures, packets int
	weight              int // of a signature in the current key
}

func newBudget() *budget { return &budget{signatures: maxKeySignatures, packets: maxKeyPackets} }

// read reads an armored key as the clients do: only the first of several armored blocks. It refuses private keys and
// keys that may be expensive. Its errors wrap no sentinel.
func (b *budget) read(armored string) (keys openpgp.EntityList, err error) {
	defer recovered(&err)
	if len(armored) > maxArmor {
		return nil, fmt.Errorf("it has more than the %d bytes that are allowed", maxArmor)
	}
	block, err := armor.Decode(strings.NewReader(armored))
	if err != nil {
		return nil, errors.New("it is not armored")
	}
	if block.Type != openpgp.PublicKeyType {
		return nil, fmt.Errorf("it is %.40q: want %q", block.Type, openpgp.PublicKeyType)
	}
	data, err := io.ReadAll(block.Body)
	if err != nil {
		return nil, err
	}
	b.weight = 1
	if _, err := eachPacket(data, b.packet); err != nil {
		return nil, err
	}
	keys, err = openpgp.ReadKeyRing(bytes.NewReader(data))
	if err == nil && len(keys) == 0 {
		err = errors.New("it has no key")
	}
	return keys, err
}

// recovered turns a panic of package openpgp into err. The input is untrusted, and the clients run the same code.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("its parser crashed: %.200v", r)
	}
}

// packet checks a packet of a key, and counts it.
func (b *budget) packet(tag byte, body []byte) error {
	if b.packets--; b.packets < 0 {
		return fmt.Errorf("more than the %d packets that all keys together are allowed", maxKeyPackets)
	}
	switch tag {
	case tagSignature:
		if b.signatures -= b.weight; b.signatures < 0 {
			return errors.New("more signatures than all keys together are allowed")
		}
	case tagPublicKey, tagPublicSubkey:
		b.weigh(body)
		return checkPublicKey(body)
	case tagUserID:
		if len(body) > maxUserID {
			return fmt.Errorf("a user ID of more than the %d bytes that are allowed", maxUserID)
		}
	case tagMarker, tagTrust, tagUserAttribute:
	default:
		return fmt.Errorf("a packet of type %d, which public keys do not have", tag)
	}
	return nil
}

// weigh sets the cost of the signatures after a key. Verifying a signature takes a few milliseconds; with some kinds of
// keys it takes several times as long.
func (b *budget) weigh(body []byte) {
	switch {
	case len(body) > 5 && body[5] == algorithmDSA:
		b.weight = max(b.weight, 4)
	case len(body) > 5 && body[5] == algorithmECDSA && bytes.Contains(body[:min(24, len(body))], []byte(brainpool)):
		b.weight = max(b.weight, 8)
	}
}

// checkPublicKey refuses a key that makes verification slow. Only RSA and DSA keys have a variable size.
func checkPublicKey(body []byte) error {
	if len(body) < 6 {
		return errors.New("a public key that is cut short")
	}
	algorithm, numbers := body[5], body[6:]
	if body[0] > 4 { // since version 5, their length comes first
		numbers = numbers[min(4, len(numbers)):]
	}
	var bounds []int
	switch algorithm {
	case 1, 2, 3: // RSA
		bounds = []int{maxRSA}
	case algorithmDSA:
		bounds = []int{maxDSA, maxDSAGroup}
	}
	for _, bound := range bounds {
		if len(numbers) < 2 {
			return errors.New("a public key that is cut short")
		}
		bits := int(binary.BigEndian.Uint16(numbers))
		if bits > bound {
			return fmt.Errorf("a public key with a number of %d bits, more than the %d that are allowed", bits, bound)
		}
		numbers = numbers[min(2+(bits+7)/8, len(numbers)):]
	}
	return nil
}

// eachPacket calls f with each packet of data, in order, until f returns an error. end is the number of bytes in the
// packets that f accepted. Lengths must be definite and consistent.
func eachPacket(data []byte, f func(tag byte, body []byte) error) (end int, err error) {
	for end < len(data) {
		tag, header, length, ok := packetHeader(data[end:])
		body := data[end+header:]
		switch {
		case !ok:
			return end, errors.New("it is not OpenPGP, or damaged")
		case length > uint64(len(body)):
			return end, errors.New("it is cut short, or a packet has a wrong length")
		}
		if err := f(tag, body[:length]); err != nil {
			return end, err
		}
		end += header + int(length)
	}
	return end, nil
}

// packetHeader reads the header of a packet (RFC 9580, section 4.2). ok is false if the length is partial or missing.
func packetHeader(data []byte) (tag byte, header int, length uint64, ok bool) {
	number := func(from, bytes int) bool {
		if len(data) < from+bytes {
			return false
		}
		for _, b := range data[from : from+bytes] {
			length = length<<8 | uint64(b)
		}
		header = from + bytes
		return true
	}
	first := data[0]
	switch {
	case first&0x80 == 0 || len(data) < 2:
		return 0, 0, 0, false
	case first&0x40 == 0: // the old format
		ok = first&3 != 3 && number(1, 1<<(first&3))
		return first >> 2 & 0xf, header, length, ok
	case data[1] < 192:
		ok = number(1, 1)
	case data[1] < 224:
		ok = number(1, 2)
		length -= 192<<8 - 192
	case data[1] == 255:
		ok = number(2, 4)
	}
	return first & 0x3f, header, length, ok
}
