package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/exacttar"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store"
)

// A Source is an open data directory. Its ledger and store may change during [Source.Write].
type Source struct {
	Ledger  *ledger.Log
	Store   *store.Store
	Tables  []store.Kind // tables of the store whose content cannot be downloaded again
	Program string       // the version of modproxy
	// Secret returns the content of a file in [Secrets]. The error is [fs.ErrNotExist] if the file does not exist.
	Secret func(name string) ([]byte, error)
}

// Options are the options of [Source.Write].
type Options struct {
	Packages bool // include all records of the store and the packages that they need
	// Found, unless nil, is called for each damaged package and record. They are not in the backup.
	Found func(store.Damage)
}

// Write writes a backup to to. Damage is not an error: see [Options.Found]. After an error, the written bytes are not a backup.
func (s *Source) Write(ctx context.Context, to io.Writer, o Options) (Summary, error) {
	w := &writer{
		Source: s, Options: o, ctx: ctx, tar: tar.NewWriter(to), written: map[modproxy.Digest]bool{},
		out: Summary{Manifest: Manifest{s.Program, time.Now().UTC(), s.Ledger.VerifierKey(), s.Ledger.Tree().N, o.Packages}},
	}
	for _, step := range []func() error{w.manifest, w.tables, w.secrets, w.ledger, w.end} {
		if err := step(); err != nil {
			return w.out, err
		}
	}
	return w.out, nil
}

// writer is one call of Write.
type writer struct {
	*Source
	Options
	ctx     context.Context
	tar     *tar.Writer
	sums    sums
	written map[modproxy.Digest]bool // packages in the backup
	list    bytes.Buffer             // content of the next file of records
	files   int                      // number of files of records that were written
	out     Summary
}

// file writes a file to the archive. content must write size bytes.
func (w *writer) file(name string, size int64, content func(io.Writer) error) error {
	if err := w.tar.WriteHeader(exacttar.Header(name, size)); err != nil {
		return err
	}
	h := sha256.New()
	if err := content(io.MultiWriter(until{w.ctx, w.tar}, h)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w.sums.add(name, h)
	return w.tar.Flush() // an error if the content has another size
}

func (w *writer) text(name string, text []byte) error {
	return w.file(name, int64(len(text)), func(to io.Writer) error {
		_, err := to.Write(text)
		return err
	})
}

// until is a writer that fails when its context has ended.
type until struct {
	ctx context.Context
	io.Writer
}

func (u until) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Writer.Write(p)
}

func (w *writer) manifest() error {
	text, err := w.out.Manifest.encode()
	if err != nil {
		return err
	}
	return w.text(manifestName, text)
}

// tables writes the selected records of the store, and the packages that they need.
func (w *writer) tables() error {
	kinds := w.Tables
	if w.Options.Packages {
		kinds = []store.Kind{""} // all kinds
	}
	for _, kind := range kinds {
		for r, err := range w.Store.Records.List(w.ctx, kind, "") {
			switch {
			case errors.Is(err, store.ErrDamaged):
				w.found(store.Damage{Kind: store.DamagedRecord, Ref: r.Ref, Text: "the record differs from what was written"})
				continue
			case err != nil:
				return err
			}
			if err := w.record(r); err != nil {
				return err
			}
		}
	}
	return w.flush()
}

func (w *writer) found(d store.Damage) {
	if w.Found != nil {
		w.Found(d)
	}
}

// record writes the packages that a record needs, and the record. It omits the record if the ledger never had its content, or if one of its
// packages is missing or damaged.
func (w *writer) record(r store.Record) error {
	if codec := w.Store.Kinds[r.Kind]; codec != nil {
		if _, err := codec.Verify(w.ctx, r); err != nil && !errors.Is(err, modproxy.ErrChanged) { // superseded records are written
			return w.leaveOut(r, modproxy.Digest{}, store.WrongRecord, err)
		}
	}
	for _, d := range r.Needs {
		if ok, err := w.blob(r, d); err != nil || !ok {
			return err
		}
	}
	text, err := json.Marshal(record{Kind: r.Kind, Key: []byte(r.Key), Value: r.Value, Needs: r.Needs})
	if err != nil {
		return err
	}
	w.list.Write(append(text, '\n'))
	w.out.Records++
	if w.list.Len() >= fullRecords {
		return w.flush()
	}
	return nil
}

// flush writes list as a file of records.
func (w *writer) flush() error {
	if w.list.Len() == 0 {
		return nil
	}
	w.files++
	defer w.list.Reset()
	return w.text(recordsName(w.files), w.list.Bytes())
}

// blob writes a package that r needs, unless it was written before. ok is false if the package is missing or damaged. If the package is removed
// after it was opened, it can still be read.
func (w *writer) blob(r store.Record, d modproxy.Digest) (ok bool, err error) {
	if w.written[d] {
		return true, nil
	}
	body, err := w.Store.Blobs.Open(w.ctx, d)
	if err == nil {
		defer body.Close()
		err = w.Store.Check(w.ctx, d)
	}
	if err == nil && body.Size() > exacttar.MaxFile {
		err = fmt.Errorf("the package has %s; the maximum in a backup is %s", modproxy.SizeText(body.Size()), modproxy.SizeText(exacttar.MaxFile))
	}
	if err != nil {
		return false, w.leaveOut(r, d, store.DamagedBlob, err)
	}
	h := sha256.New()
	err = w.file(packagesPrefix+d.String(), body.Size(), func(to io.Writer) error {
		_, err := io.Copy(io.MultiWriter(to, h), body)
		return err
	})
	if err == nil && modproxy.Digest(h.Sum(nil)) != d {
		err = fmt.Errorf("package %s: its content changed during the backup: make another backup", d)
	}
	if err != nil {
		return false, err
	}
	w.written[d] = true
	w.out.Packages.Blobs++
	w.out.Packages.Bytes += body.Size()
	return true, nil
}

// leaveOut reports to Found why a record is not in the backup. If why is [store.ErrDamaged], kind is the kind of the damage. leaveOut reports
// nothing if the record was removed or replaced meanwhile, unless its package is damaged: then the check of the package has removed it.
func (w *writer) leaveOut(r store.Record, d modproxy.Digest, kind store.DamageKind, why error) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	damage := store.Damage{Kind: store.Unreadable, Ref: r.Ref, Digest: d, Text: why.Error()}
	switch {
	case errors.Is(why, store.ErrDamaged):
		damage.Kind = kind
	case errors.Is(why, fs.ErrNotExist):
		damage.Kind, damage.Text = store.MissingBlob, "the package is missing"
	}
	if now, err := w.Store.Records.Get(w.ctx, r.Ref); (err != nil || now.Revision != r.Revision) && damage.Kind != store.DamagedBlob {
		return nil
	}
	w.found(damage)
	return nil
}

func (w *writer) secrets() error {
	for _, name := range Secrets {
		text, err := w.Secret(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = w.text(name, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ledger writes the private key of the ledger, and an export of its current state.
func (w *writer) ledger() error {
	key, err := w.Ledger.PrivateKey()
	if err != nil {
		return err
	}
	if err := w.text(ledgerKeyName, key); err != nil {
		return err
	}
	now := w.Ledger.Snapshot()
	w.out.Entries = now.Tree.N
	return w.file(ledgerName, now.Size(), now.Write)
}

func (w *writer) end() error {
	if err := w.text(sumsName, bytes.Clone(w.sums.Bytes())); err != nil {
		return err
	}
	return w.tar.Close()
}
