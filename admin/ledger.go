package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/ledger"
)

// A LedgerQuery selects versions. Its zero fields select all.
type LedgerQuery struct {
	versionname.Name
	Since time.Time `json:"since,omitzero"` // for drift: only observations at this time or later
}

// choose returns a function that reports whether q selects a version.
func (q LedgerQuery) choose() (func(modproxy.Ref) bool, error) {
	wanted, err := q.ParseOptional()
	return func(v modproxy.Ref) bool {
		v, wanted := v.Folded(), wanted.Folded()
		isOf := v.IsArchive() && v.Base() == wanted // a release includes its archives
		return q.Name == (versionname.Name{}) || v.Address == wanted.Address && (wanted.Version == "" || v == wanted || isOf)
	}, err
}

// A Record is a record of the ledger, and whether it counts.
type Record struct {
	versionname.Name
	modproxy.Record
	Counts bool `json:"counts"` // no later record replaces it
}

func (s *Server) records(ctx context.Context, q LedgerQuery, each func(Record)) (done none, err error) {
	chosen, err := q.choose()
	if err != nil {
		return done, err
	}
	list, err := s.history(ctx, chosen)
	for _, rec := range list {
		each(rec)
	}
	return done, err
}

// history returns the records of the chosen versions in the order in which they were added. Without a ledger, the list is empty.
func (s *Server) history(ctx context.Context, chosen func(modproxy.Ref) bool) (list []Record, err error) {
	if s.Ledger == nil {
		return nil, nil
	}
	last := map[modproxy.Ref]int{}
	for rec, err := range s.Ledger.All(ctx) {
		if err != nil {
			return nil, err
		}
		if chosen(rec.Ref) {
			last[rec.Ref] = len(list)
			list = append(list, Record{versionname.Of(rec.Ref), rec, false})
		}
	}
	mixed := map[modproxy.Ref]bool{} // lower-case forms of addresses that are also recorded in another spelling
	for v := range last {
		if f := v.Folded(); f != v {
			mixed[f] = true
		}
	}
	for v, i := range last {
		list[i].Counts = true
		if mixed[v.Folded()] {
			counts, err := s.Ledger.Lookup(ctx, v)
			if err != nil {
				return nil, err
			}
			list[i].Counts = counts.Ref == v
		}
	}
	return list, nil
}

// A Drift is an observation in the ledger, and whether it is open.
type Drift struct {
	versionname.Name
	ledger.Drift
	Open bool                   `json:"open"`                  // the content that was recorded at that time still counts
	Was  modproxy.ProviderFacts `json:"was,omitzero"`          // of the record that counts
	As   string                 `json:"recorded_as,omitempty"` // the address in the record that counts, if its spelling differs
}

func (s *Server) drift(ctx context.Context, q LedgerQuery, each func(Drift)) (done none, err error) {
	chosen, err := q.choose()
	if err != nil {
		return done, err
	}
	for d, err := range s.Ledger.Drifts(ctx) {
		if err != nil {
			return done, err
		}
		if !chosen(d.Ref) || d.Time.Before(q.Since) {
			continue
		}
		counts, err := s.Ledger.Lookup(ctx, d.Ref)
		if err != nil {
			return done, err
		}
		open := counts.Sum == d.Recorded && (d.Subdir == "" || d.Subdir != counts.Subdir)
		out := Drift{Name: versionname.Of(d.Ref), Drift: d, Open: open, Was: counts.ProviderFacts}
		if counts.Address != d.Address {
			out.As = counts.Address.String()
		}
		each(out)
	}
	return done, nil
}

func (s *Server) key(context.Context, none, func(none)) (string, error) {
	return s.Ledger.VerifierKey(), nil
}

// export answers with the whole ledger in pieces. Its end is the number of records and observations.
func (s *Server) export(_ context.Context, _ none, each func([]byte)) (int64, error) {
	n := s.Ledger.Tree().N
	return n, s.Ledger.Export(pieces(each))
}

// pieces implements [io.Writer] with a function.
type pieces func([]byte)

func (f pieces) Write(p []byte) (int, error) { f(p); return len(p), nil }

// A LedgerImportRequest is an export of a ledger. It must be signed with the key of the importing ledger, or with one of Keys.
type LedgerImportRequest struct {
	Keys []string  `json:"-"`
	From io.Reader `json:"-"`
}

// importLedger returns the number of records and observations that it added.
func (s *Server) importLedger(ctx context.Context, in LedgerImportRequest, _ func(none)) (int64, error) {
	trust, err := ledger.Verifiers(append(in.Keys, s.Ledger.VerifierKey())...)
	if err != nil {
		return 0, err
	}
	added, err := s.Ledger.Import(ctx, in.From, trust)
	if err == nil && s.Cache != nil {
		s.Cache.Forget(modproxy.Ref{})
	}
	if err == nil && s.Gate != nil { // the export may have decisions
		err = s.Gate.Follow(context.WithoutCancel(ctx))
	}
	return added, err
}

// An AcceptRequest accepts new content of a version, or a key that may sign the releases of a provider.
type AcceptRequest struct {
	versionname.Name
	Sum modproxy.Sum `json:"sum,omitempty"`
	// Key is a fingerprint. If it is set, Version, Sum and Subdir must be empty. Keys that were accepted earlier stay accepted.
	// Module may be host/namespace/*: all providers of the namespace whose keys are recorded.
	Key    string `json:"key,omitempty"`
	Subdir string `json:"subdir,omitempty"` // empty: the offered directory, or else the recorded one
	Reason string `json:"reason"`
}

// An AcceptResult is the result of an [AcceptRequest].
type AcceptResult struct {
	Before  modproxy.Sum `json:"before"`
	Subdir  string       `json:"subdir,omitempty"`  // the directory that counts now, if it has changed
	Offered bool         `json:"offered"`           // an upstream has offered the accepted content or key
	Modules []string     `json:"modules,omitempty"` // the providers for which the key was accepted, if Module was a namespace
}

func (s *Server) accept(ctx context.Context, in AcceptRequest, _ func(none)) (out AcceptResult, err error) {
	if namespace, ok := strings.CutSuffix(in.Module, "/*"); ok && in.Key != "" {
		return s.acceptForNamespace(ctx, in, namespace)
	}
	v, err := in.Parse("")
	if err != nil {
		return out, err
	}
	if in.Key != "" {
		if !v.IsProvider() || v.Version != "" || in.Sum != "" || in.Subdir != "" {
			return out, fmt.Errorf("%w: a key is accepted for a provider, not for a version or a sum", modproxy.ErrInvalid)
		}
		v = v.SigningKeys()
	}
	rec := ledger.Record{Ref: v, Sum: in.Sum, Subdir: in.Subdir, Time: time.Now(), Reason: in.Reason}
	before, err := s.Ledger.Lookup(ctx, v)
	if errors.Is(err, fs.ErrNotExist) {
		err = absent(fmt.Sprintf("no record of %s: the first download is recorded, and need not be accepted", v.Shown()))
	}
	if err != nil {
		return out, err
	}
	out.Before = before.Sum
	if in.Key != "" {
		keys, err := modproxy.NewKeys(in.Key)
		if err != nil {
			return out, err
		}
		rec.ProviderFacts.Keys, rec.Sum = keys, keys.Record(v.Address).Sum // the sum with which the key was offered
	}
	var spellings map[modproxy.Ref]bool
	if spellings, out.Offered, err = s.offered(ctx, &rec); err != nil {
		return out, err
	}
	if in.Key != "" {
		rec.ProviderFacts.Keys = before.Keys.Union(rec.ProviderFacts.Keys)
		rec.Sum = rec.ProviderFacts.Keys.Record(v.Address).Sum
	} else if err := acceptsSum(v, in.Sum, out.Offered); err != nil {
		return out, err
	}
	rec.Subdir = cmp.Or(rec.Subdir, before.Subdir)
	if rec.Subdir != before.Subdir {
		out.Subdir = rec.Subdir
	}
	if in.Key != "" {
		spellings = map[modproxy.Ref]bool{v.Address.At(""): true} // releases with this signature may have been refused
	}
	err = s.Ledger.Accept(ctx, rec)
	for v := range spellings {
		if s.Cache != nil {
			s.Cache.Forget(v)
		}
	}
	return out, err
}

// acceptsSum returns an error if an operator cannot accept a sum for v. offered reports whether an upstream has offered it.
func acceptsSum(v modproxy.Ref, sum modproxy.Sum, offered bool) error {
	switch v.Content() {
	case modproxy.KeysContent:
		return fmt.Errorf("%w: %s: keys are accepted by their fingerprints", modproxy.ErrInvalid, v.Shown())
	case modproxy.ArchiveContent:
		return fmt.Errorf("%w: %s is part of a release: accept the release", modproxy.ErrInvalid, v.Shown())
	case modproxy.ReleaseContent:
		if !offered {
			return fmt.Errorf("%w: no upstream has offered %s as %s, so its packages are not known", modproxy.ErrInvalid, v.Shown(), sum)
		}
	case modproxy.ModuleContent:
	}
	return nil
}

// acceptForNamespace accepts a key for every provider of a namespace whose keys are recorded.
func (s *Server) acceptForNamespace(ctx context.Context, in AcceptRequest, namespace string) (out AcceptResult, err error) {
	of, err := hostname.ParseAddress(namespace+"/any", "")
	if err == nil && (!of.IsProvider() || in.Version != "" || in.Sum != "" || in.Subdir != "") {
		err = fmt.Errorf("%w: a key is accepted for the providers of a namespace, not for a version or a sum", modproxy.ErrInvalid)
	}
	key, errKey := modproxy.NewKeys(in.Key)
	if err := cmp.Or(err, errKey); err != nil {
		return out, err
	}
	concerns := func(v modproxy.Ref) bool {
		return v.Content() == modproxy.KeysContent && v.Host == of.Host && v.Namespace == of.Namespace
	}
	counts, sources := map[modproxy.Address]ledger.Record{}, map[modproxy.Address]modproxy.Source{}
	for rec, err := range s.Ledger.All(ctx) {
		if err != nil {
			return out, err
		}
		if concerns(rec.Ref) {
			counts[rec.Address] = rec
		}
	}
	for d, err := range s.Ledger.Drifts(ctx) {
		if err != nil {
			return out, err
		}
		if concerns(d.Ref) && d.Keys.Intersects(key) {
			sources[d.Address], out.Offered = d.Source, true
		}
	}
	if len(counts) == 0 {
		return out, absent(fmt.Sprintf("no keys of providers of %s are recorded: the first download of a release records them", namespace))
	}
	for m, before := range counts {
		rec := before.Keys.Union(key).Record(m)
		rec.Time, rec.Reason, rec.Source = time.Now(), in.Reason, sources[m]
		if err := s.Ledger.Accept(ctx, rec); err != nil {
			return out, fmt.Errorf("%s: %w", m, err)
		}
		if s.Cache != nil {
			s.Cache.Forget(m.At(""))
		}
		out.Modules = append(out.Modules, m.String())
	}
	slices.Sort(out.Modules)
	return out, nil
}

// absent is the text of an error that matches [fs.ErrNotExist]. The text of fs.ErrNotExist itself is about files.
type absent string

func (a absent) Error() string      { return string(a) }
func (absent) Is(target error) bool { return target == fs.ErrNotExist }

// offered reports whether an upstream has offered rec, and returns the spellings of its address that have records. It sets the source
// and the facts of rec, and the directory if that is empty.
func (s *Server) offered(ctx context.Context, rec *ledger.Record) (spellings map[modproxy.Ref]bool, ok bool, err error) {
	wanted, spellings := rec.Subdir, map[modproxy.Ref]bool{rec.Ref: true}
	see := func(v modproxy.Ref, sum modproxy.Sum, subdir string, source modproxy.Source, facts modproxy.ProviderFacts) bool {
		fits := v.Folded() == rec.Ref.Folded() && sum == rec.Sum && (wanted == "" || subdir == "" || subdir == wanted)
		if fits {
			rec.Source, rec.ProviderFacts, ok = source, facts, true
		}
		return fits
	}
	for was, err := range s.Ledger.All(ctx) {
		if err != nil {
			return nil, false, err
		}
		if was.Ref.Folded() == rec.Ref.Folded() {
			spellings[was.Ref] = true
		}
		see(was.Ref, was.Sum, was.Subdir, was.Source, was.ProviderFacts)
	}
	for d, err := range s.Ledger.Drifts(ctx) {
		if err != nil {
			return nil, false, err
		}
		if see(d.Ref, d.Offered, d.Subdir, d.Source, d.ProviderFacts) && wanted == "" && d.Subdir != "" {
			rec.Subdir = d.Subdir
		}
	}
	return spellings, ok, nil
}
