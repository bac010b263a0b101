package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

// Under concurrent calls of everything, no reader gets wrong bytes, no record lacks its blob, the bound holds, and the
// account is right at the end.
func TestEverythingAtOnce(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		var m storetest.Memory
		everythingAtOnce(t, store.Config{Records: m.Records(), Blobs: m.Blobs(), Quarantine: &m}, 100)
	})
	t.Run("disk", func(t *testing.T) {
		d, err := disk.Open(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		everythingAtOnce(t, store.Config{Records: d.Records(), Blobs: d.Blobs(), Quarantine: d}, 40)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

func everythingAtOnce(t *testing.T, config store.Config, rounds int) {
	const max = 1 << 20
	config.MaxSize, config.Memory, config.Pins = max, 256<<10, pins{"10000.1+0": true}
	s := store.New(config)
	s.Start()
	ctx, cancel := context.WithCancel(context.Background())
	f := &fixture{Store: s}
	expected := func(err error) bool {
		var full *modproxy.NoSpace
		return err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrDamaged) ||
			errors.Is(err, modproxy.ErrUnavailable) && !errors.Is(err, store.ErrUnreadable) || errors.As(err, &full)
	}
	var users, others sync.WaitGroup
	for worker := range 6 {
		users.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for range rounds {
				key := fmt.Sprintf("%d.%d+%d", 10_000<<random.IntN(5), 1+random.IntN(5), random.IntN(2))
				data, d := dataOf(key)
				var err error
				switch n := random.IntN(20); {
				case n == 0:
					_, err = s.Discard(ctx, refOf(key))
				case n == 1:
					err = s.SetAside(ctx, d)
				case n == 2:
					err = s.Check(ctx, d)
				case n < 6: // a part of it
					var r modproxy.Body
					if r, err = f.open(ctx, key); err == nil {
						from := random.IntN(len(data))
						err = r.Verify(ctx)
						_, seeking := r.Seek(int64(from), io.SeekStart)
						part := make([]byte, min(100, len(data)-from))
						if _, reading := io.ReadFull(r, part); err == nil && seeking == nil && reading == nil && !bytes.Equal(part, data[from:from+len(part)]) {
							t.Error("other bytes")
						}
						r.Close()
					}
				default:
					err = f.get(ctx, key)
				}
				if !expected(err) {
					t.Errorf("%s: %v", key, err)
				}
			}
		})
	}
	others.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if kept, reserved := s.Usage(); kept+reserved > max {
				t.Errorf("%d bytes are kept, %d reserved", kept, reserved)
			}
			_, err := s.Collect(ctx, store.Collection{MaxSize: max / 2, QuarantineAge: 1, DryRun: i%2 == 0})
			if !expected(err) && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	users.Wait()
	cancel()
	others.Wait()
	var there int64
	for b, err := range s.Blobs.Blobs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		there += b.Size
	}
	if kept, reserved := s.Usage(); kept != there || reserved != 0 {
		t.Errorf("%d bytes are kept, %d reserved; %d are there", kept, reserved, there)
	}
	for r, err := range s.Records.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Blobs.Stat(t.Context(), r.Needs[0]); err != nil {
			t.Errorf("%s: %v", r.Key, err)
		}
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
