package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache/disk"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/pack"
)

// verifyLimits bound what verifying takes for a package. They are far above what
// fetching allows, which may have been lowered since.
var verifyLimits = pack.Limits{Entries: 10_000_000, Bytes: 1 << 42, Packed: 1 << 42}

// Verify says how to look for damage.
type Verify struct {
	ReadData bool `json:"read_data,omitempty"`
	Repair   bool `json:"repair,omitempty"`
}

// Verified is what was looked at so far.
type Verified struct {
	disk.Verified
	Superseded int `json:"superseded,omitempty"` // records of what was kept before something else was accepted, which is no damage
}

// Damage is something that is wrong.
type Damage struct {
	Module string `json:"module,omitempty"`
	Digest string `json:"digest,omitempty"` // SHA-256 of the package
	disk.Damage
}

// OfLedger reports whether the ledger is damaged, which is not repaired.
func (d *Damage) OfLedger() bool { return d.Kind == ledgerDamaged || d.Kind == ledgerMissing }

// Damage of the ledger, beside the kinds of package disk.
const (
	ledgerDamaged disk.Kind = "ledger_damaged" // it is not what was written, or not what the modproxy that serves has open
	ledgerMissing disk.Kind = "ledger_missing" // packages are kept, and there is none, or one without records
)

// VerifyLine is a line of the answer; one field is set. The last line has Done.
type VerifyLine struct {
	Damage   *Damage   `json:"damage,omitempty"`
	Progress *Verified `json:"progress,omitempty"`
	Done     *Verified `json:"done,omitempty"`
	Error    string    `json:"error,omitempty"`
}

func (s *Server) verify(w http.ResponseWriter, r *http.Request) error {
	var in Verify
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	stream(w, func(write func(any)) {
		ledger, old := 0, 0
		add := func(v disk.Verified) *Verified {
			v.Damage += ledger - old
			return &Verified{v, old}
		}
		superseded := s.superseded()
		check := disk.Check{
			Data: in.ReadData, Repair: in.Repair,
			Retire: func(d modproxy.Digest, take func() (bool, error)) error {
				return s.Cache.Retire(r.Context(), d, take)
			},
			Sum: func(r io.Reader) (modproxy.Sum, error) { return pack.Verify(r, verifyLimits) },
			Found: func(d disk.Damage) {
				if d.Kind == disk.PinDiffers && superseded(d.Module, d.Version) {
					old++
					return
				}
				write(VerifyLine{Damage: describeDamage(d)})
			},
			Progress: func(v disk.Verified) { write(VerifyLine{Progress: add(v)}) },
		}
		if s.hasRecords() {
			check.Pinned = s.RecordedSum
		}
		if d := s.checkLedger(); d != nil {
			ledger = 1
			write(VerifyLine{Damage: d})
		}
		out, err := s.Store.Verify(r.Context(), check)
		if err != nil {
			write(VerifyLine{Error: err.Error()})
			return
		}
		write(VerifyLine{Done: add(out)})
	})
	return nil
}

func describeDamage(d disk.Damage) *Damage {
	out := &Damage{Damage: d}
	if d.Module != (modproxy.Module{}) {
		out.Module = d.Module.String()
	}
	if !d.Digest.IsZero() {
		out.Digest = d.Digest.String()
	}
	return out
}

// RecordedSum returns the sum that the ledger has of a version.
func (s *Server) RecordedSum(m modproxy.Module, version string) (modproxy.Sum, error) {
	r, err := s.Ledger.Lookup(context.Background(), m.At(version))
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("the ledger has no record of it")
	}
	return r.Sum, err
}

func (s *Server) hasRecords() bool { return s.Ledger != nil && s.Ledger.Tree().N > 0 }

// checkLedger returns what is wrong with the ledger as a whole, or nil.
func (s *Server) checkLedger() *Damage {
	err := s.Damage
	if err == nil && s.Ledger != nil {
		err = s.Ledger.Verify()
	}
	switch {
	case errors.Is(err, ledger.ErrDamaged):
		return &Damage{Damage: disk.Damage{Kind: ledgerDamaged, Text: err.Error()}}
	case err != nil:
		return &Damage{Damage: disk.Damage{Kind: disk.Unreadable, Text: "the ledger: " + err.Error()}}
	case s.hasRecords():
		return nil
	}
	for range s.Store.Packages(modproxy.Module{}) {
		return &Damage{Damage: disk.Damage{Kind: ledgerMissing, Text: ErrNoLedger.Error() + ": " + strings.Join(NoLedgerHints, ", ")}}
	}
	return nil
}

// ErrNoLedger is the error where packages are kept beside a ledger without records:
// to go on would accept any content for them.
var ErrNoLedger = errors.New("the ledger is missing, or has no record, but packages are kept beside it")

// NoLedgerHints say what to do about [ErrNoLedger].
var NoLedgerHints = []string{
	"put its backup back",
	`or import an export of it: "modproxy ledger import FILE --key KEY"`,
	`or begin one with what the kept packages are: "modproxy ledger init"`,
}

// superseded returns a function that reports whether what is kept of a version is
// what the ledger had before other content was accepted. Such a package is not
// served, and is replaced when the version is fetched.
func (s *Server) superseded() func(m modproxy.Module, version string) bool {
	type content struct {
		modproxy.ModuleVersion
		sum modproxy.Sum
	}
	had := sync.OnceValue(func() map[content]bool {
		all := map[content]bool{}
		for r, err := range s.Ledger.All(context.Background()) {
			if err == nil { // what cannot be read counts for nothing
				all[content{r.ModuleVersion, r.Sum}] = true
			}
		}
		return all
	})
	return func(m modproxy.Module, version string) bool {
		kept, err := s.Store.Package(m, version)
		return err == nil && had()[content{m.At(version), kept.Sum}]
	}
}

// Verify looks for damage, and calls each with every line of the answer.
func (c *Client) Verify(ctx context.Context, in Verify, each func(VerifyLine) error) error {
	return readStream(ctx, c, "POST", "packages/verify", in, func(line VerifyLine) (bool, error) {
		if line.Error != "" {
			return true, fmt.Errorf("verify: %s", line.Error)
		}
		return line.Done != nil, each(line)
	})
}
