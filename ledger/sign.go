package ledger

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
)

var errKey = errors.New("it is not a signer's key")

// signer signs tree heads.
type signer struct {
	note.Signer
	public   string // the verifier key
	verifier note.Verifiers
}

// parseSigner parses the private key of note.GenerateKey, followed by a newline.
func parseSigner(text []byte) (*signer, error) {
	private := strings.TrimSuffix(string(text), "\n")
	s, err := note.NewSigner(private)
	if err != nil {
		return nil, errKey
	}
	raw, _ := base64.StdEncoding.DecodeString(strings.SplitN(private, "+", 5)[4])
	again := fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s\n", s.Name(), s.KeyHash(), base64.StdEncoding.EncodeToString(raw))
	if again != string(text) {
		return nil, errKey
	}
	// note.NewSigner has checked that the algorithm's byte precedes the seed of an Ed25519 key.
	public, _ := note.NewEd25519VerifierKey(s.Name(), ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey))
	v, err := Verifiers(public)
	return &signer{s, public, v}, err
}

// head returns the tree of the first n records and its signed head. The same tree always has the same head.
func (s *signer) head(hashes stored, n int64) (tlog.Tree, []byte, error) {
	tree := hashes.root(n)
	head, err := note.Sign(&note.Note{Text: string(tlog.FormatTree(tree))}, s)
	return tree, head, err
}

// openHead parses a head and verifies that one of known signed it.
func openHead(text []byte, known note.Verifiers) (tlog.Tree, error) {
	n, err := note.Open(text, known)
	if err != nil {
		return tlog.Tree{}, err
	}
	for _, sig := range append(n.Sigs, n.UnverifiedSigs...) {
		if _, err := base64.StdEncoding.Strict().DecodeString(sig.Base64); err != nil {
			return tlog.Tree{}, errors.New("a signature differs from what was written")
		}
	}
	return tlog.ParseTree([]byte(n.Text))
}

// Verifiers returns the verifiers of verifier keys. Keys may occur repeatedly. The error is [modproxy.ErrInvalid].
func Verifiers(keys ...string) (note.Verifiers, error) {
	var list []note.Verifier
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		v, err := note.NewVerifier(key)
		if err != nil {
			return nil, fmt.Errorf("%w: %.80q is not a verifier key: \"modproxy ledger key\" prints one", modproxy.ErrInvalid, key)
		}
		list = append(list, v)
	}
	return note.VerifierList(list...), nil
}
