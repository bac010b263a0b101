package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

// slow is a registry whose packages take a while.
type slow struct {
	modproxy.Registry
	takes time.Duration
	err   error
	kept  bool
}

func (s *slow) Location(context.Context, modproxy.Module, string) (modproxy.Location, error) {
	return modproxy.Location{Kept: s.kept}, nil
}

func (s *slow) Package(ctx context.Context, _ modproxy.Module, _ string) (*modproxy.Package, error) {
	select {
	case <-time.After(s.takes):
		return nil, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestTellEarly(t *testing.T) {
	book := ledgertest.NewMemory()
	must(t, book.Add(ledgertest.NewRecord(vpc, "1.0.0", "a")))
	for name, c := range map[string]struct {
		slow
		version string
		took    time.Duration
		want    error
	}{
		"changed":           {slow{takes: time.Second, err: modproxy.ErrChanged}, "1.0.0", time.Second, modproxy.ErrChanged},
		"changed, too late": {slow{takes: time.Hour, err: modproxy.ErrChanged}, "1.0.0", tellWithin, nil},
		"other trouble":     {slow{takes: time.Second, err: modproxy.ErrUnavailable}, "1.0.0", time.Second, nil},
		"kept":              {slow{takes: time.Second, err: modproxy.ErrChanged, kept: true}, "1.0.0", 0, nil},
		"not seen before":   {slow{takes: time.Second, err: modproxy.ErrChanged}, "2.0.0", 0, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := time.Now()
			_, err := (&tellEarly{Next: &c.slow, Ledger: book}).Location(t.Context(), vpc, c.version)
			if took := time.Since(asked); !errors.Is(err, c.want) || took != c.took {
				t.Errorf("%s: %v after %v; want %v after %v", name, err, took, c.want, c.took)
			}
		})
	}
}
