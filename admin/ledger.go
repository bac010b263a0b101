package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/ledger"
)

// A Query chooses versions. Its zero fields choose all.
type Query struct {
	Module  modproxy.Module
	Version string
	Since   time.Time // of drift
}

func (q Query) chooses(m modproxy.Module, version string) bool {
	return (q.Module == modproxy.Module{} || q.Module == m) && (q.Version == "" || q.Version == version)
}

func (q Query) values() string {
	v := url.Values{}
	if q.Module != (modproxy.Module{}) {
		v.Set("module", q.Module.String())
	}
	if q.Version != "" {
		v.Set("version", q.Version)
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339))
	}
	return v.Encode()
}

func queryOf(r *http.Request) (q Query, err error) {
	values := r.URL.Query()
	if s := values.Get("module"); s != "" {
		if q.Module, err = hostname.ParseModule(s, ""); err != nil {
			return q, err
		}
	}
	if s := values.Get("version"); s != "" {
		if q.Version, err = modproxy.CanonicalVersion(s); err != nil {
			return q, err
		}
	}
	if s := values.Get("since"); s != "" {
		if q.Since, err = time.Parse(time.RFC3339, s); err != nil {
			return q, fmt.Errorf("%w: since %.80q: want a time such as 2026-03-04T05:06:07Z", modproxy.ErrInvalid, s)
		}
	}
	return q, nil
}

// Record is a record of the ledger, and whether it counts.
type Record struct {
	Module  string          `json:"module"`
	Version string          `json:"version"`
	Sum     modproxy.Sum    `json:"sum"`
	Subdir  string          `json:"subdir,omitempty"` // the module's directory in the package; "." for all of it
	Source  modproxy.Source `json:"source,omitzero"`
	Time    time.Time       `json:"time"`
	Reason  string          `json:"reason,omitempty"` // why it was accepted
	Counts  bool            `json:"counts"`           // no later record of the version was accepted
}

// records answers with the chosen records, in the order in which they were added.
func (s *Server) records(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r)
	if err != nil {
		return err
	}
	list := []Record{}
	last := map[string]int{}
	for rec, err := range s.Ledger.All(r.Context()) {
		switch {
		case err != nil:
			return err
		case !q.chooses(rec.Module, rec.Version):
			continue
		}
		key := rec.ModuleVersion.String()
		if before, ok := last[key]; ok {
			list[before].Counts = false
		}
		last[key] = len(list)
		list = append(list, Record{rec.Module.String(), rec.Version, rec.Sum, rec.Subdir, rec.Source, rec.Time, rec.Reason, true})
	}
	return writeJSON(w, map[string]any{"records": list, "tree": s.Ledger.Tree().N})
}

// Drift is content that was offered for a version and is not what is recorded, and
// whether that is open.
type Drift struct {
	Module   string          `json:"module"`
	Version  string          `json:"version"`
	Recorded modproxy.Sum    `json:"recorded"`
	Offered  modproxy.Sum    `json:"offered"`
	Subdir   string          `json:"subdir,omitempty"` // that was offered, if it is another than recorded
	Source   modproxy.Source `json:"source,omitzero"`  // of what was offered
	Time     time.Time       `json:"time"`
	Open     bool            `json:"open"` // what was recorded then still counts
}

// drift answers with the chosen observations, in the order in which they were made.
func (s *Server) drift(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r)
	if err != nil {
		return err
	}
	list := []Drift{}
	for d, err := range s.Ledger.Drifts(r.Context()) {
		switch {
		case err != nil:
			return err
		case !q.chooses(d.Module, d.Version) || d.Time.Before(q.Since):
			continue
		}
		counts, err := s.Ledger.Lookup(r.Context(), d.ModuleVersion)
		if err != nil {
			return err
		}
		open := counts.Sum == d.Recorded && (d.Subdir == "" || d.Subdir != counts.Subdir)
		list = append(list, Drift{d.Module.String(), d.Version, d.Recorded, d.Offered, d.Subdir, d.Source, d.Time, open})
	}
	return writeJSON(w, map[string]any{"drift": list})
}

func (s *Server) key(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, map[string]string{"key": s.Ledger.VerifierKey()})
}

// recordsHeader is how many records and observations an export has.
const recordsHeader = "Modproxy-Records"

// export answers with the whole ledger. It cuts its answer off if it fails later.
func (s *Server) export(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(recordsHeader, strconv.FormatInt(s.Ledger.Tree().N, 10))
	out := &begun{ResponseWriter: w}
	err := s.Ledger.Export(out)
	if err != nil && out.yes {
		panic(http.ErrAbortHandler)
	}
	return err
}

// begun knows whether something was written.
type begun struct {
	http.ResponseWriter
	yes bool
}

func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.ResponseWriter.Write(p)
}

// Acceptance is the content that a version has from now on.
type Acceptance struct {
	Module  string       `json:"module"`
	Version string       `json:"version"`
	Sum     modproxy.Sum `json:"sum"`
	Subdir  string       `json:"subdir,omitempty"` // empty: the one that was offered, or that counts now
	Reason  string       `json:"reason"`
}

// Accepted is what became of an [Acceptance].
type Accepted struct {
	Before  modproxy.Sum `json:"before"`
	Subdir  string       `json:"subdir,omitempty"` // the directory that counts from now on, if it was another
	Offered bool         `json:"offered"`          // an upstream has offered what was accepted
}

func (s *Server) accept(w http.ResponseWriter, r *http.Request) error {
	var in Acceptance
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	rec := ledger.Record{Sum: in.Sum, Subdir: in.Subdir, Time: time.Now(), Reason: in.Reason}
	var err error
	if rec.Module, err = hostname.ParseModule(in.Module, ""); err != nil {
		return err
	}
	if rec.Version, err = modproxy.CanonicalVersion(in.Version); err != nil {
		return err
	}
	before, err := s.Ledger.Lookup(r.Context(), rec.ModuleVersion)
	if errors.Is(err, fs.ErrNotExist) {
		return absent(fmt.Sprintf("no record of %s: what is fetched first is recorded, and need not be accepted", rec.ModuleVersion))
	} else if err != nil {
		return err
	}
	out := Accepted{Before: before.Sum}
	if out.Offered, err = s.offered(r.Context(), &rec); err != nil {
		return err
	}
	if rec.Subdir == "" {
		rec.Subdir = before.Subdir
	}
	if rec.Subdir != before.Subdir {
		out.Subdir = rec.Subdir
	}
	if err := s.Ledger.Accept(r.Context(), rec); err != nil {
		return err
	}
	if s.Cache != nil {
		s.Cache.Forget(rec.ModuleVersion)
	}
	return writeJSON(w, out)
}

// absent is the text of an error that is [fs.ErrNotExist], which has a text for files.
type absent string

func (a absent) Error() string      { return string(a) }
func (absent) Is(target error) bool { return target == fs.ErrNotExist }

// offered reports whether an upstream has offered what rec says for its version. It
// adds the source of that to rec, and the directory if rec has none.
func (s *Server) offered(ctx context.Context, rec *ledger.Record) (ok bool, err error) {
	wanted := rec.Subdir
	fits := func(m modproxy.Module, version string, sum modproxy.Sum, subdir string) bool {
		return m == rec.Module && version == rec.Version && sum == rec.Sum && (wanted == "" || subdir == "" || subdir == wanted)
	}
	for was, err := range s.Ledger.All(ctx) {
		if err != nil {
			return false, err
		}
		if fits(was.Module, was.Version, was.Sum, was.Subdir) {
			rec.Source, ok = was.Source, true
		}
	}
	for d, err := range s.Ledger.Drifts(ctx) {
		if err != nil {
			return false, err
		}
		if !fits(d.Module, d.Version, d.Offered, d.Subdir) {
			continue
		}
		rec.Source, ok = d.Source, true
		if wanted == "" && d.Subdir != "" {
			rec.Subdir = d.Subdir
		}
	}
	return ok, nil
}

func (s *Server) importLedger(w http.ResponseWriter, r *http.Request) error {
	trust, err := ledger.Verifiers(append(r.URL.Query()["key"], s.Ledger.VerifierKey())...)
	if err != nil {
		return err
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		return err // an export is as long as it is
	}
	added, err := s.Ledger.Import(r.Context(), r.Body, trust)
	if err != nil {
		return err
	}
	if s.Cache != nil {
		s.Cache.Forget(modproxy.ModuleVersion{})
	}
	return writeJSON(w, map[string]int64{"added": added})
}
