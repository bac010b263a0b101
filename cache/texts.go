package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// The kinds of records of a [Catalog] about the documentation of providers. If they are lost, they are requested again.
const (
	TextKind    store.Kind = "provider-texts"   // the text of one document
	NumbersKind store.Kind = "provider-numbers" // the numeric IDs of the documents of one version: the index of Catalog.Numbered
)

const (
	maxTextsMemory   = 8 << 20 // bytes in memory
	maxNumbersMemory = 1 << 20
	blockSize        = 4096 // numbers of documents in one record: a registry gives those of a version one after the other
	maxBlock         = 1024 // records of one block
)

// Text returns the text of a document: see [Catalog] and [modproxy.Catalog].
func (c *Catalog) Text(ctx context.Context, v modproxy.Ref, id string) (*modproxy.Text, error) {
	return catalogued(ctx, c, &c.texts, textKey{key{v}, id})
}

// textKey is the key of the text of one document.
type textKey struct {
	key
	id string
}

func (k textKey) ref() store.Ref { return store.Ref{Kind: TextKind, Key: k.key.ref().Key + "/" + k.id} }

// numbers are the numbers of the documents of one version that are in one block, as runs with a first and a last number.
type numbers struct {
	Runs []run `json:"runs"`
	modproxy.Answered
}

type run [2]uint64

func (n *numbers) status() *modproxy.Answered { return &n.Answered }

// numbersKey is the key of the numbers of one block for one version.
type numbersKey struct {
	key
	block uint64
}

// ref has the block before the version, so that all versions of a block are listed together.
func (k numbersKey) ref() store.Ref {
	return store.Ref{Kind: NumbersKind, Key: blockPrefix(k.Host, k.block) + k.Namespace + "/" + k.Name + "/" + k.FullVersion()}
}

func blockPrefix(host string, block uint64) string {
	return host + "/" + strconv.FormatUint(block, 10) + "/"
}

// number returns the ID of a document as a number.
func number(id string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(id, 10, 63)
	return n, err == nil && strconv.FormatUint(n, 10) == id
}

// blocksOf returns the numbers of docs by their blocks.
func blocksOf(docs []modproxy.Doc) map[uint64][]run {
	var all []uint64
	for _, doc := range docs {
		if n, ok := number(doc.ID); ok {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	blocks := map[uint64][]run{}
	for _, n := range slices.Compact(all) {
		runs := blocks[n/blockSize]
		if last := len(runs) - 1; last >= 0 && runs[last][1]+1 == n {
			runs[last][1] = n
			continue
		}
		blocks[n/blockSize] = append(runs, run{n, n})
	}
	return blocks
}

// remember stores which documents a version has, so that Numbered finds them by their numbers alone.
func (c *Catalog) remember(ctx context.Context, v modproxy.Ref, d *modproxy.Details) {
	for block, runs := range blocksOf(d.Docs) {
		k := numbersKey{key{v}, block}
		before, _ := c.numbers.read(ctx, k) // an unreadable one is written again
		if before != nil && slices.Equal(before.value.Runs, runs) {
			continue
		}
		var revision uint64
		if before != nil {
			revision = before.revision
		}
		value := &numbers{Runs: runs, Answered: modproxy.Answered{Time: time.Now()}}
		c.numbers.keep(ctx, k, value, overhead+16*int64(len(runs)), time.Now(), revision)
	}
}

// Numbered returns the versions of providers of a registry that have a document with this ID, as far as their details are
// stored.
func (c *Catalog) Numbered(ctx context.Context, host, id string) (versions []modproxy.Ref, err error) {
	n, ok := number(id)
	if !ok {
		return nil, nil
	}
	prefix := blockPrefix(host, n/blockSize)
	seen := 0
	for rec, err := range c.Store.Records.List(ctx, NumbersKind, prefix) {
		switch {
		case errors.Is(err, store.ErrDamaged):
			continue
		case err != nil:
			return nil, fmt.Errorf("%w: document %s of %s: %w", modproxy.ErrUnavailable, id, host, err)
		}
		if seen++; seen > maxBlock {
			return nil, fmt.Errorf("%w: document %s of %s: more than %d versions of providers have documents near it",
				modproxy.ErrUnavailable, id, host, maxBlock)
		}
		parts := strings.Split(strings.TrimPrefix(rec.Key, prefix), "/")
		if len(parts) != 3 {
			continue
		}
		k := numbersKey{key{modproxy.NewProvider(host, parts[0], parts[1]).At(parts[2])}, n / blockSize}
		a, err := c.numbers.parse(k, rec)
		if err == nil && slices.ContainsFunc(a.value.Runs, func(r run) bool { return r[0] <= n && n <= r[1] }) {
			versions = append(versions, k.Ref)
		}
	}
	return versions, nil
}
