// Package storetest tests implementations of the storage interfaces of package store.
//
//	storetest.Run(t, func(t *testing.T, n int) []storetest.Handle { return handles(t, n) })
//
// [Run] has one subtest for each promise of [store.Records], [store.Blobs] and [store.Quarantine]. [Memory] is a storage in
// memory for other tests.
package storetest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// Handle is the view of one process on a storage.
type Handle struct {
	Records    store.Records
	Blobs      store.Blobs
	Quarantine store.Quarantine
	// Damage changes the value of an existing record without the storage.
	Damage func(t *testing.T, ref store.Ref)
	// Lose removes a blob without the storage.
	Lose func(t *testing.T, d modproxy.Digest)
}

// Run tests a storage. open returns n handles of one empty storage.
func Run(t *testing.T, open func(t *testing.T, n int) []Handle) {
	t.Run("Records", func(t *testing.T) { testRecords(t, open) })
	t.Run("List", func(t *testing.T) { testList(t, open) })
	t.Run("Blobs", func(t *testing.T) { testBlobs(t, open) })
	t.Run("Remove", func(t *testing.T) { testRemove(t, open) })
	t.Run("Races", func(t *testing.T) { testRaces(t, open) })
}

// Bytes returns n bytes that depend on seed, and their digest.
func Bytes(n int, seed byte) ([]byte, modproxy.Digest) {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b) // never fails
	return b, sha256.Sum256(b)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}

var ref = store.Ref{Kind: "module-package", Key: "registry.example.com/acme/vpc/aws/1.0.0"}

func (h Handle) put(t *testing.T, r store.Record) store.Record {
	t.Helper()
	revision, err := h.Records.Put(t.Context(), r)
	must(t, err)
	if revision == 0 || revision == r.Revision {
		t.Errorf("Put of revision %d = %d", r.Revision, revision)
	}
	r.Revision = revision
	return r
}

// holds compares a record with the stored one.
func (h Handle) holds(t *testing.T, want store.Record) {
	t.Helper()
	got, err := h.Records.Get(t.Context(), want.Ref)
	must(t, err)
	if !sameRecord(got, want) {
		t.Errorf("Get = %+v, want %+v", got, want)
	}
}

func sameRecord(a, b store.Record) bool {
	return a.Ref == b.Ref && bytes.Equal(a.Value, b.Value) && slices.Equal(a.Needs, b.Needs) && a.Revision == b.Revision
}

func (h Handle) lacks(t *testing.T, refs ...store.Ref) {
	t.Helper()
	for _, ref := range refs {
		_, err := h.Records.Get(t.Context(), ref)
		wantError(t, "Get of "+ref.Key, err, fs.ErrNotExist)
	}
}

// list returns the keys of the records that List yields.
func (h Handle) list(t *testing.T, kind store.Kind, prefix string) string {
	t.Helper()
	var keys []string
	for r, err := range h.Records.List(t.Context(), kind, prefix) {
		must(t, err)
		keys = append(keys, r.Key)
	}
	return strings.Join(keys, " ")
}

// putBlob puts a blob of n bytes and returns its digest.
func (h Handle) putBlob(t *testing.T, n int, seed byte) modproxy.Digest {
	t.Helper()
	data, d := Bytes(n, seed)
	must(t, h.Blobs.Put(t.Context(), d, bytes.NewReader(data)))
	return d
}

func (h Handle) hasBlob(t *testing.T, d modproxy.Digest, want []byte) {
	t.Helper()
	info, err := h.Blobs.Stat(t.Context(), d)
	must(t, err)
	blob, err := h.Blobs.Open(t.Context(), d)
	must(t, err)
	defer blob.Close()
	got, err := io.ReadAll(blob)
	must(t, err)
	if !bytes.Equal(got, want) || info.Digest != d || info.Size != int64(len(want)) || blob.Size() != info.Size {
		t.Errorf("%s has %d bytes, Stat %v, Size %d; want %d", d, len(got), info, blob.Size(), len(want))
	}
}

func (h Handle) lacksBlob(t *testing.T, d modproxy.Digest) {
	t.Helper()
	_, err := h.Blobs.Open(t.Context(), d)
	wantError(t, "Open", err, fs.ErrNotExist)
	_, err = h.Blobs.Stat(t.Context(), d)
	wantError(t, "Stat", err, fs.ErrNotExist)
}
