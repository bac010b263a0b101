package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// Restore writes the content of the backup into an empty directory, durably, and verifies the backup. It does not compare the records of
// packages with the ledger. After an error, the directory is not usable.
func (b *Reader) Restore(ctx context.Context, dir string) (out Summary, err error) {
	d, err := disk.Open(ctx, dir)
	if err != nil {
		return out, err
	}
	r := &restore{Reader: b, ctx: ctx, dir: dir, disk: d, out: Summary{Manifest: b.Manifest}}
	defer func() {
		if r.ledger != nil {
			err = errors.Join(err, r.ledger.Close())
		}
		err = errors.Join(err, d.Close())
	}()
	for {
		f, err := b.Next()
		if errors.Is(err, io.EOF) {
			return r.out, r.end()
		}
		if err == nil {
			err = r.file(f)
		}
		if err != nil {
			return r.out, err
		}
	}
}

// restore is one call of Restore.
type restore struct {
	*Reader
	ctx    context.Context
	dir    string
	disk   *disk.Directory
	files  int    // number of files of records that were read
	key    []byte // private key of the ledger; nil before its file was read
	ledger *ledger.Log
	out    Summary
}

func (r *restore) file(f *File) error {
	digest, isPackage := strings.CutPrefix(f.Name, packagesPrefix)
	switch {
	case isPackage:
		return r.blob(f, digest)
	case f.Name == recordsName(r.files+1):
		r.files++
		return r.records(f)
	case slices.Contains(Secrets, f.Name):
		return r.secret(f)
	case f.Name == ledgerKeyName && r.key == nil:
		text, err := f.text(maxSecret)
		r.key = text
		return err
	case f.Name == ledgerName && r.key != nil && r.ledger == nil:
		var err error
		r.ledger, err = ledger.Restore(r.ctx, filepath.Join(r.dir, "ledger"), r.key, f)
		return err
	}
	return wrong("before byte %d, a backup has no file %.80q", r.tar.At, f.Name)
}

func (r *restore) blob(f *File, name string) error {
	d, err := modproxy.ParseDigest(name)
	if err != nil || d.String() != name {
		return wrong("before byte %d, a backup has no file %.80q", r.tar.At, f.Name)
	}
	err = r.disk.Blobs().Put(r.ctx, d, f)
	if errors.Is(err, store.ErrDamaged) {
		err = wrong("before byte %d, the package %s was changed", r.tar.At, name)
	}
	r.out.Packages.Blobs++
	r.out.Packages.Bytes += f.Size
	return err
}

// maxPuts is the maximum number of records that are written at the same time. The storage commits them together.
const maxPuts = 64

func (r *restore) records(f *File) error {
	text, err := f.text(maxRecords)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(maxPuts)
	for line := range bytes.Lines(text) {
		var made record
		if err := json.Unmarshal(line, &made); err != nil {
			return errors.Join(wrong("%s: %v", f.Name, err), group.Wait())
		}
		r.out.Records++
		group.Go(func() error {
			ref := store.Ref{Kind: made.Kind, Key: string(made.Key)}
			_, err := r.disk.Records().Put(r.ctx, store.Record{Ref: ref, Value: made.Value, Needs: made.Needs})
			if err != nil {
				err = fmt.Errorf("record %s %.80q: %w", ref.Kind, ref.Key, err)
			}
			return err
		})
	}
	return group.Wait()
}

func (r *restore) secret(f *File) error {
	text, err := f.text(maxSecret)
	if err != nil {
		return err
	}
	name := filepath.Join(r.dir, filepath.FromSlash(f.Name))
	var files durable.Disk
	if err := files.MkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	return files.WriteFile(name, func(to *os.File) error {
		_, err := to.Write(text)
		return err
	})
}

// end checks that the backup had a ledger, and that it is the one in the manifest.
func (r *restore) end() error {
	if r.ledger == nil {
		return wrong("the backup has no ledger: use another backup")
	}
	if key := r.ledger.VerifierKey(); key != r.Key {
		return wrong("the ledger in the backup has the key %s, but the manifest has %s: use another backup", key, r.Key)
	}
	if r.out.Entries = r.ledger.Tree().N; r.out.Entries < r.Least {
		return wrong("the ledger in the backup has %d entries, but the manifest has %d: use another backup", r.out.Entries, r.Least)
	}
	return nil
}
