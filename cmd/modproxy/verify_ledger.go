package main

import (
	"errors"
	"io/fs"
	"strings"
	"sync"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/cache/disk"
	"github.com/modproxy/modproxy/ledger"
)

// What "modproxy verify" says of the ledger, beside what package disk says.
const (
	ledgerDamaged disk.Kind = "ledger_damaged" // it is not what was written, or not what the modproxy that serves has open
	ledgerMissing disk.Kind = "ledger_missing" // packages are kept, and there is none, or one without records
)

// pinned is what the ledger has of a version.
func (s *storage) pinned(m modproxy.Module, version string) (modproxy.Sum, error) {
	r, err := s.book.Lookup(m, version)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("the ledger has no record of it")
	}
	return r.Sum, err
}

// recorded tells whether the ledger has had a record of any version.
func (s *storage) recorded() bool { return s.book != nil && s.book.Tree().N > 0 }

// checkLedger is what is wrong with the ledger as a whole; nil for nothing.
func (s *storage) checkLedger() *damage {
	err := s.damage
	if err == nil && s.book != nil {
		err = s.book.Recheck()
	}
	d := disk.Damage{Kind: ledgerMissing, Text: app.ErrNoLedger.Error() + ": " + strings.Join(app.NoLedgerRemedies, ", ")}
	switch {
	case errors.Is(err, ledger.ErrDamaged):
		d.Kind, d.Text = ledgerDamaged, err.Error()
	case err != nil:
		d.Kind, d.Text = disk.Unreadable, "the ledger: "+err.Error()
	case s.recorded():
		return nil
	}
	if d.Kind == ledgerMissing {
		kept := false
		for range s.store.Packages(modproxy.Module{}) {
			kept = true
			break
		}
		if !kept {
			return nil
		}
	}
	return &damage{Damage: d}
}

// superseded tells of a version whether what is kept of it is what the ledger had
// before somebody accepted something else: it is not served, and replaced when the
// version is fetched.
func (s *storage) superseded() func(m modproxy.Module, version string) bool {
	type sight struct {
		module  modproxy.Module
		version string
		sum     modproxy.Sum
	}
	had := sync.OnceValue(func() map[sight]bool {
		all := map[sight]bool{}
		for r, err := range s.book.All() {
			if err == nil { // what cannot be read counts for nothing
				all[sight{r.Module, r.Version, r.Sum}] = true
			}
		}
		return all
	})
	return func(m modproxy.Module, version string) bool {
		kept, err := s.store.Package(m, version)
		return err == nil && had()[sight{m, version, kept.Sum}]
	}
}
