package store_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/storetest"
)

type visits struct {
	Name  string
	Count int
	Last  time.Time
}

func newTable() (*storetest.Memory, store.Table[visits]) {
	m := &storetest.Memory{}
	return m, store.Table[visits]{Records: m.Records(), Kind: "visits", Belongs: func(key string, v visits) bool { return v.Name == key }}
}

func visit(t *testing.T, table store.Table[visits], key string, at time.Time) {
	t.Helper()
	stored, err := table.Update(t.Context(), key, func(row *store.Row[visits]) {
		row.Value = visits{key, row.Value.Count + 1, at}
	})
	if !stored || err != nil {
		t.Errorf("Update: %v, %v", stored, err)
	}
}

// Concurrent updates of many callers are all counted.
func TestTableUpdate(t *testing.T) {
	_, table := newTable()
	if row, err := table.Get(t.Context(), "a"); err != nil || row.Exists || row.Damaged || row.Value != (visits{}) {
		t.Errorf("Get of a missing row: %+v, %v", row, err)
	}
	var group sync.WaitGroup
	for range 8 { // fewer than the tries of an update; each failed try lets another update succeed
		group.Go(func() { visit(t, table, "a", time.Time{}) })
	}
	group.Wait()
	if row, err := table.Get(t.Context(), "a"); err != nil || !row.Exists || row.Value.Count != 8 {
		t.Errorf("Get: %+v, %v", row, err)
	}
}

// A damaged row, or one with the value of another key, has the zero value and can be updated and deleted.
func TestTableDamage(t *testing.T) {
	m, table := newTable()
	for _, key := range []string{"a", "b", "c"} {
		visit(t, table, key, time.Now())
	}
	m.Damage(store.Ref{Kind: "visits", Key: "a"})
	if _, err := table.Update(t.Context(), "b", func(row *store.Row[visits]) { row.Value.Name = "other" }); err != nil {
		t.Fatal(err)
	}
	var damaged []string
	for row, err := range table.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if row.Damaged {
			damaged = append(damaged, row.Key)
		}
		if row.Damaged && row.Value != (visits{}) {
			t.Errorf("%+v", row)
		}
	}
	if fmt.Sprint(damaged) != "[a b]" {
		t.Errorf("damaged: %v", damaged)
	}
	visit(t, table, "a", time.Now())
	row, err := table.Get(t.Context(), "b")
	if deleted, errDelete := table.Delete(t.Context(), row); err != nil || errDelete != nil || !deleted {
		t.Errorf("Delete: %v, %v, %v", deleted, err, errDelete)
	}
	if row, err := table.Get(t.Context(), "a"); err != nil || row.Damaged || row.Value.Count != 1 {
		t.Errorf("Get: %+v, %v", row, err)
	}
}

// A row that was changed meanwhile is not deleted.
func TestTableDelete(t *testing.T) {
	_, table := newTable()
	visit(t, table, "a", time.Time{})
	row, _ := table.Get(t.Context(), "a")
	visit(t, table, "a", time.Time{})
	if deleted, err := table.Delete(t.Context(), row); deleted || err != nil {
		t.Errorf("Delete: %v, %v", deleted, err)
	}
}

func TestTableTrim(t *testing.T) {
	m, table := newTable()
	now := time.Now()
	for i := range 10 {
		visit(t, table, fmt.Sprint("k", i), now.Add(time.Duration(i%5)*time.Hour))
	}
	m.Damage(store.Ref{Kind: "visits", Key: "k9"})
	age := func(v visits) time.Time { return v.Last }
	if left, err := table.Trim(t.Context(), 10, 3, age); left != 10 || err != nil {
		t.Errorf("Trim: %d, %v", left, err)
	}
	if left, err := table.Trim(t.Context(), 9, 3, age); left != 6 || err != nil {
		t.Errorf("Trim: %d, %v", left, err)
	}
	var keys []string
	for row := range table.List(t.Context(), "") {
		keys = append(keys, row.Key)
	}
	if got := strings.Join(keys, " "); got != "k2 k3 k4 k6 k7 k8" { // k9 was damaged, k0 and k5 are the oldest, then k1
		t.Errorf("rows: %s", got)
	}
}

// ambiguous stores a record and returns an error.
type ambiguous struct{ store.Records }

func (a ambiguous) Put(ctx context.Context, r store.Record) (uint64, error) {
	_, err := a.Records.Put(ctx, r)
	return 0, errors.Join(errors.New("the connection broke"), err)
}

// unanswering fails every Get.
type unanswering struct{ store.Records }

func (unanswering) Get(context.Context, store.Ref) (store.Record, error) {
	return store.Record{}, errors.New("no disk")
}

func (unanswering) List(context.Context, store.Kind, string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) { yield(store.Record{}, errors.New("no disk")) }
}

// An error does not show whether the row was stored, so Update reads the row again.
func TestTableErrors(t *testing.T) {
	_, table := newTable()
	table.Records = ambiguous{table.Records}
	stored, err := table.Update(t.Context(), "a", func(row *store.Row[visits]) { row.Value.Name = "a" })
	if !stored || !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("Update: %v, %v", stored, err)
	}
	table.Records = unanswering{table.Records}
	if _, err := table.Get(t.Context(), "a"); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("Get: %v", err)
	}
	if stored, err := table.Update(t.Context(), "a", func(*store.Row[visits]) {}); stored || !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("Update: %v, %v", stored, err)
	}
	for _, err := range table.List(t.Context(), "") {
		if !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("List: %v", err)
		}
	}
}
