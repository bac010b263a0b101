package ledger

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
)

const (
	importPrefix = "bundle "

	// BundlePrefix begins the manifest of a bundle, see package bundle. The head of a tree never begins with it.
	BundlePrefix = "modproxy bundle "
)

var importLines = []string{"chain", "sequence", "tree", "hash", "signer", "time"}

// Bundle is a bundle of another ledger that was imported completely.
type Bundle struct {
	ID       modproxy.Digest
	Chain    modproxy.Digest // the ID of the first bundle of its chain
	Sequence int64           // counted from 1
	Tree     tlog.Tree       // of the other ledger; not empty
	Signer   string          // the name and the number of the other ledger's key
	Time     time.Time       // of the import; not zero
}

// FormatBundle returns the text of an import in the log. A sumdb client takes none of its lines for a line of go.sum:
//
//	bundle e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
//	chain 01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b
//	sequence 2
//	tree 311
//	hash LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=
//	signer modproxy+0a1b2c3d
//	time 2026-05-06T07:08:09Z
//
// Errors are [modproxy.ErrInvalid].
func FormatBundle(b Bundle) ([]byte, error) {
	if b.ID.IsZero() || b.Chain.IsZero() || b.Sequence < 1 || b.Tree.N < 1 || b.Signer == "" || !isLine(b.Signer) {
		return nil, fmt.Errorf("%w: bundle %v", modproxy.ErrInvalid, b)
	}
	if err := checkTime(b.Time); err != nil {
		return nil, err
	}
	return formatText(importPrefix+b.ID.String(), importLines, b.Chain.String(), strconv.FormatInt(b.Sequence, 10),
		strconv.FormatInt(b.Tree.N, 10), b.Tree.Hash.String(), b.Signer, b.Time.UTC().Format(time.RFC3339Nano))
}

// ParseBundle is the inverse of [FormatBundle]; its error is [modproxy.ErrInvalid].
func ParseBundle(text []byte) (b Bundle, err error) {
	first, value := parseText(text, importLines)
	id, errID := modproxy.ParseDigest(first[1])
	chain, errChain := modproxy.ParseDigest(value[0])
	sequence, errSequence := strconv.ParseInt(value[1], 10, 64)
	size, errSize := strconv.ParseInt(value[2], 10, 64)
	hash, errHash := tlog.ParseHash(value[3])
	return whole(text, FormatBundle, cmp.Or(errID, errChain, errSequence, errSize, errHash), Bundle{
		ID: id, Chain: chain, Sequence: sequence, Tree: tlog.Tree{N: size, Hash: hash}, Signer: value[4], Time: parseTime(value[5]),
	})
}

// AddBundle records the import of a bundle. If the bundle is already recorded, the first import stays.
func (l *Log) AddBundle(ctx context.Context, b Bundle) error {
	text, err := FormatBundle(b)
	return l.append(ctx, text, err)
}

// Bundles yields every imported bundle, like All.
func (l *Log) Bundles(ctx context.Context) iter.Seq2[Bundle, error] {
	return each(ctx, l, imported, ParseBundle)
}

// SignBundle returns the manifest of a bundle as a signed note. It signs nothing else.
func (l *Log) SignBundle(text []byte) ([]byte, error) {
	if !bytes.HasPrefix(text, []byte(BundlePrefix)) {
		return nil, fmt.Errorf("%w: the text to be signed is not a manifest of a bundle", modproxy.ErrInvalid)
	}
	return note.Sign(&note.Note{Text: string(text)}, l.signer)
}

// Verifier returns the verifiers of the log's own key.
func (l *Log) Verifier() note.Verifiers { return l.signer.verifier }

// Number returns the number and the text of the record of a version in this spelling, if it counts. Otherwise the error is
// [fs.ErrNotExist].
func (l *Log) Number(v modproxy.Ref) (number int64, text []byte, err error) {
	l.mu.RLock()
	p, own, _ := l.index.current(ids(v))
	l.mu.RUnlock()
	if !own {
		return 0, nil, absent("lookup", v.String())
	}
	text, err = l.text(int64(p.number))
	return int64(p.number), text, err
}

// Root returns the tree of the first n entries. If the log has fewer, the error is [modproxy.ErrInvalid].
func (l *Log) Root(n int64) (tlog.Tree, error) {
	hashes, err := l.upTo(n)
	if err != nil {
		return tlog.Tree{}, err
	}
	return hashes.root(n), nil
}

// Prove returns a proof that an entry is in the tree of the first n entries.
func (l *Log) Prove(number, n int64) (tlog.RecordProof, error) {
	hashes, err := l.upTo(n)
	if err != nil {
		return nil, err
	}
	return tlog.ProveRecord(n, number, hashes)
}

// ProveTree returns a proof that the tree of the first old entries is the beginning of the tree of the first n entries.
func (l *Log) ProveTree(old, n int64) (tlog.TreeProof, error) {
	hashes, err := l.upTo(n)
	if err != nil {
		return nil, err
	}
	return tlog.ProveTree(n, old, hashes)
}

// upTo returns the hashes of the tree. If it has fewer than n entries, the error is [modproxy.ErrInvalid].
func (l *Log) upTo(n int64) (stored, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if n < 0 || n > l.tree.N {
		return nil, fmt.Errorf("%w: the ledger has %d entries, and not %d", modproxy.ErrInvalid, l.tree.N, n)
	}
	return l.index.hashes, nil
}
