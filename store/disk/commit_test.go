package disk_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// together runs updates that all wait during another commit, and returns their errors. commits is the number of commits
// for the updates, without the other one. commit is called before each of these commits.
func together(t *testing.T, d *disk.Directory, commit func() error, updates ...func() error) (errs []error, commits int) {
	t.Helper()
	first, begun, end := true, make(chan bool), make(chan bool)
	d.FailCommit(func() error {
		if first {
			first = false
			close(begun)
			<-end
			return nil
		}
		commits++
		return commit()
	})
	var group sync.WaitGroup
	group.Go(func() {
		_, err := d.Records().Put(context.WithoutCancel(t.Context()), store.Record{Ref: store.Ref{Kind: "list", Key: "first"}})
		if err != nil {
			t.Error(err)
		}
	})
	<-begun
	errs = make([]error, len(updates))
	for i, update := range updates {
		group.Go(func() { errs[i] = update() })
		for d.Waiting() <= i {
			runtime.Gosched()
		}
	}
	close(end)
	group.Wait()
	return errs, commits
}

func putting(t *testing.T, d *disk.Directory, key string, revision uint64) func() error {
	return func() error {
		r := store.Record{Ref: store.Ref{Kind: "list", Key: key}, Value: []byte(key), Revision: revision}
		_, err := d.Records().Put(context.WithoutCancel(t.Context()), r)
		return err
	}
}

// Waiting updates are committed together. A failed update is left out, and later updates see the earlier ones.
func TestUpdatesAreCommittedTogether(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, dir)
	var updates []func() error
	for i := range 20 {
		updates = append(updates, putting(t, d, fmt.Sprint("new", i), 0))
	}
	updates = append(updates, putting(t, d, "conflict", 77), putting(t, d, "new3", 0), putting(t, d, "last", 0))
	errs, commits := together(t, d, func() error { return nil }, updates...)
	for i, err := range errs {
		if conflict := i == 20 || i == 21; errors.Is(err, store.ErrConflict) != conflict || !conflict && err != nil {
			t.Errorf("update %d: %v", i, err)
		}
	}
	if commits != 1 {
		t.Errorf("%d commits", commits)
	}
	must(t, d.Close())
	d = mustOpen(t, dir)
	revisions := map[uint64]bool{}
	for r, err := range d.Records().List(t.Context(), "list", "") {
		must(t, err)
		if string(r.Value) != r.Key && r.Key != "first" {
			t.Errorf("%s is %q", r.Key, r.Value)
		}
		revisions[r.Revision] = true
	}
	if len(revisions) != 22 {
		t.Errorf("%d revisions of 22 records", len(revisions))
	}
}

// If a commit fails, none of its updates takes effect, and each of them returns the error.
func TestACommitFailsForAll(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	errs, commits := together(t, d, func() error { return syscall.ENOSPC }, putting(t, d, "a", 0), putting(t, d, "b", 0))
	if !errors.Is(errs[0], syscall.ENOSPC) || !errors.Is(errs[1], syscall.ENOSPC) || commits != 1 {
		t.Errorf("%v, and %d commits", errs, commits)
	}
	for _, key := range []string{"a", "b"} {
		if _, err := d.Records().Get(t.Context(), store.Ref{Kind: "list", Key: key}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// BenchmarkPutParallel puts records, with 64 calls at a time. ns/op is the time for one record.
func BenchmarkPutParallel(b *testing.B) {
	d := mustOpen(b, b.TempDir())
	var mu sync.Mutex
	n := 0
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			key := fmt.Sprint(n)
			mu.Unlock()
			if _, err := d.Records().Put(b.Context(), store.Record{Ref: store.Ref{Kind: "list", Key: key}, Value: make([]byte, 1000)}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
