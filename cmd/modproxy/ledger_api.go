package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/proxy"
)

// ledgerRecord is a record as people and programs are shown it.
type ledgerRecord struct {
	Module  string          `json:"module"`
	Version string          `json:"version"`
	Sum     modproxy.Sum    `json:"sum"`
	Subdir  string          `json:"subdir,omitempty"` // the module's directory in the package; "." for all of it
	Source  modproxy.Source `json:"source,omitzero"`
	Time    time.Time       `json:"time"`
	Reason  string          `json:"reason,omitempty"` // why it was accepted
	Counts  bool            `json:"counts"`           // no later record of the version was accepted
}

// ledgerDrift is an observation as people and programs are shown it.
type ledgerDrift struct {
	Module   string          `json:"module"`
	Version  string          `json:"version"`
	Recorded modproxy.Sum    `json:"recorded"`
	Offered  modproxy.Sum    `json:"offered"`
	Subdir   string          `json:"subdir,omitempty"` // that was offered, if it is another than recorded
	Source   modproxy.Source `json:"source,omitzero"`  // of what was offered
	Time     time.Time       `json:"time"`
	Open     bool            `json:"open"` // what was recorded then still counts
}

// query chooses versions; its zero fields choose all.
type query struct {
	module  modproxy.Module
	version string
	since   time.Time // of drift
}

func (q query) chooses(m modproxy.Module, version string) bool {
	return (q.module == modproxy.Module{} || q.module == m) && (q.version == "" || q.version == version)
}

// recordsOf are the chosen records of a ledger, in the order in which they were added.
func recordsOf(book ledger.Ledger, q query) ([]ledgerRecord, error) {
	list := []ledgerRecord{}
	last := map[[2]string]int{}
	for r, err := range book.All() {
		switch {
		case err != nil:
			return nil, err
		case !q.chooses(r.Module, r.Version):
			continue
		}
		key := [2]string{r.Module.String(), r.Version}
		if before, ok := last[key]; ok {
			list[before].Counts = false
		}
		last[key] = len(list)
		list = append(list, ledgerRecord{key[0], r.Version, r.Sum, r.Subdir, r.Source, r.Time, r.Reason, true})
	}
	return list, nil
}

// driftOf are the chosen observations of a ledger, in the order in which they were
// made. One is open while what was recorded then counts: until somebody accepts
// something else.
func driftOf(book ledger.Ledger, q query) ([]ledgerDrift, error) {
	list := []ledgerDrift{}
	for d, err := range book.Drifts() {
		switch {
		case err != nil:
			return nil, err
		case !q.chooses(d.Module, d.Version) || d.Time.Before(q.since):
			continue
		}
		counts, err := book.Lookup(d.Module, d.Version)
		if err != nil {
			return nil, err
		}
		list = append(list, ledgerDrift{
			d.Module.String(), d.Version, d.Recorded, d.Offered, d.Subdir, d.Source, d.Time,
			counts.Sum == d.Recorded && (d.Subdir == "" || d.Subdir != counts.Subdir),
		})
	}
	return list, nil
}

// acceptance is what "modproxy ledger accept" asks for, and accepted what it is told.
type (
	acceptance struct {
		Module  string       `json:"module"`
		Version string       `json:"version"`
		Sum     modproxy.Sum `json:"sum"`
		Subdir  string       `json:"subdir,omitempty"` // empty: the one that was offered, or that counts now
		Reason  string       `json:"reason"`
	}
	accepted struct {
		Before  modproxy.Sum `json:"before"`
		Subdir  string       `json:"subdir,omitempty"` // the directory that counts from now on, if it was another
		Offered bool         `json:"offered"`          // upstream has offered what was accepted, then or before
	}
)

// accept makes what a says count, and calls forget when it does.
func accept(book ledger.Ledger, a acceptance, forget func(m modproxy.Module, version string)) (out accepted, err error) {
	m, err := parseModule(a.Module, "")
	if err != nil {
		return out, err
	}
	version, err := modproxy.CanonicalVersion(a.Version)
	if err != nil {
		return out, err
	}
	before, err := book.Lookup(m, version)
	if errors.Is(err, fs.ErrNotExist) {
		return out, absent(fmt.Sprintf("no record of %s %s: what is fetched first is recorded, and needs nobody to accept it", m, version))
	} else if err != nil {
		return out, err
	}
	r := ledger.Record{ModuleVersion: modproxy.ModuleVersion{Module: m, Version: version}, Sum: a.Sum, Subdir: a.Subdir, Time: time.Now(), Reason: a.Reason}
	out.Before = before.Sum
	if out.Offered, err = offered(book, &r); err != nil {
		return out, err
	}
	if r.Subdir == "" {
		r.Subdir = before.Subdir
	}
	if r.Subdir != before.Subdir {
		out.Subdir = r.Subdir
	}
	if err := book.Accept(r); err != nil {
		return out, err
	}
	forget(m, version)
	return out, nil
}

// offered tells whether upstream has had what r says for its version, and gives it
// the source that this came from, and the directory if it has none.
func offered(book ledger.Ledger, r *ledger.Record) (ok bool, err error) {
	wanted := r.Subdir
	fits := func(m modproxy.Module, version string, sum modproxy.Sum, subdir string) bool {
		return m == r.Module && version == r.Version && sum == r.Sum && (wanted == "" || subdir == "" || subdir == wanted)
	}
	for was, err := range book.All() {
		if err != nil {
			return false, err
		}
		if fits(was.Module, was.Version, was.Sum, was.Subdir) {
			r.Source, ok = was.Source, true
		}
	}
	for d, err := range book.Drifts() {
		if err != nil {
			return false, err
		}
		if !fits(d.Module, d.Version, d.Offered, d.Subdir) {
			continue
		}
		r.Source, ok = d.Source, true
		if wanted == "" && d.Subdir != "" {
			r.Subdir = d.Subdir
		}
	}
	return ok, nil
}

// ledgerMounts are the API of the ledger. forget is called when what counts for a
// version has changed; for the zero Module, for any.
func ledgerMounts(book *ledger.Log, forget func(m modproxy.Module, version string)) []proxy.Mount {
	mount := func(method, name string, handle func(http.ResponseWriter, *http.Request) error) proxy.Mount {
		return proxy.Mount{Method: method, Path: "/-/api/ledger/" + name, Kind: "api", Handle: handle}
	}
	return []proxy.Mount{
		mount("GET", "records", func(w http.ResponseWriter, r *http.Request) error {
			q, err := queryOf(r)
			if err != nil {
				return err
			}
			list, err := recordsOf(book, q)
			if err != nil {
				return err
			}
			return writeJSON(w, map[string]any{"records": list, "tree": book.Tree().N})
		}),
		mount("GET", "drift", func(w http.ResponseWriter, r *http.Request) error {
			q, err := queryOf(r)
			if err != nil {
				return err
			}
			list, err := driftOf(book, q)
			if err != nil {
				return err
			}
			return writeJSON(w, map[string]any{"drift": list})
		}),
		mount("POST", "accept", func(w http.ResponseWriter, r *http.Request) error {
			var a acceptance
			if err := readJSON(w, r, &a); err != nil {
				return err
			}
			out, err := accept(book, a, forget)
			if err != nil {
				return err
			}
			return writeJSON(w, out)
		}),
		mount("POST", "import", func(w http.ResponseWriter, r *http.Request) error {
			trust, err := verifiers(append(r.URL.Query()["key"], book.VerifierKey()))
			if err != nil {
				return err
			}
			if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
				return err // an export is as long as it is
			}
			added, err := book.Import(r.Body, trust)
			if err != nil {
				return err
			}
			forget(modproxy.Module{}, "")
			return writeJSON(w, map[string]int64{"added": added})
		}),
		mount("POST", "init", func(http.ResponseWriter, *http.Request) error {
			return errHasLedger
		}),
	}
}

// queryOf reads module, version and since from a request's query.
func queryOf(r *http.Request) (q query, err error) {
	values := r.URL.Query()
	if s := values.Get("module"); s != "" {
		if q.module, err = parseModule(s, ""); err != nil {
			return q, err
		}
	}
	if s := values.Get("version"); s != "" {
		if q.version, err = modproxy.CanonicalVersion(s); err != nil {
			return q, err
		}
	}
	if s := values.Get("since"); s != "" {
		if q.since, err = time.Parse(time.RFC3339, s); err != nil {
			return q, fmt.Errorf("%w: since %.80q: want a time such as 2026-03-04T05:06:07Z", modproxy.ErrInvalid, s)
		}
	}
	return q, nil
}

// verifiers are those of verifier keys, each of which may be there more than once.
// The error is [modproxy.ErrInvalid].
func verifiers(keys []string) (note.Verifiers, error) {
	var list []note.Verifier
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		v, err := note.NewVerifier(key)
		if err != nil {
			return nil, fmt.Errorf("%w: %.80q is no verifier key: \"modproxy ledger key\" prints one", modproxy.ErrInvalid, key)
		}
		list = append(list, v)
	}
	return note.VerifierList(list...), nil
}
