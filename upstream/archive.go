package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/upstream/archive"
	"github.com/modproxy/modproxy/upstream/egress"
)

// fetchArchive brings the files of an archive into the tree.
func (f *fetch) fetchArchive(ctx context.Context, s source) error {
	file, size, err := f.download(ctx, s)
	if err != nil {
		return err
	}
	defer file.Close()
	if s.checksum != nil {
		if err := s.checksum.Verify(ctx, file, size); err != nil {
			return err
		}
	}
	if s.direct {
		if s.format, err = sniff(file); err != nil {
			return err
		}
	}
	l := archive.Limits{Entries: f.cfg.Limits.Entries, Bytes: f.cfg.Limits.Bytes}
	if l.Bytes > 0 {
		l.Bytes += headerRoom + int64(l.Entries)<<10 // the tree is what is bounded to the byte
	}
	return archive.Unpack(ctx, file, size, s.format, f.tree, l)
}

// headerRoom is for what an archive has beside its files, in bytes; each entry has
// a KiB more.
const headerRoom = 1 << 20

// download receives an archive into a file without a name: a checksum covers it
// whole, and a zip is read from its end.
func (f *fetch) download(ctx context.Context, s source) (*os.File, int64, error) {
	res, err := f.cfg.Egress.Get(ctx, egress.Request{
		URL:         s.url.String(),
		Credentials: f.credentialsFor(s),
		Redirects:   maxRequests,
		Budget:      f.budget,
		Attempts:    3,
		MaxBytes:    f.cfg.MaxReceived,
		Archive:     true,
	})
	if err != nil {
		return nil, 0, outgoing(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, 0, packageRefusal(res)
	}
	file, err := scratchFile(f.cfg.Scratch)
	if err != nil {
		return nil, 0, err
	}
	size, err := io.Copy(file, res.Body)
	if err != nil {
		file.Close()
		return nil, 0, outgoing(err)
	}
	return file, size, nil
}

// credentialsFor is what the host of a package is shown: what is configured for its
// origin, what the location itself carries, and the registry's own token only if
// the registry asked for that and it is the registry's own origin.
func (f *fetch) credentialsFor(s source) []egress.Credential {
	var shown []egress.Credential
	if s.user != nil {
		shown = append(shown, *s.user)
	}
	if s.own {
		shown = append(shown, f.credentials(f.module.Host)...)
	}
	for _, known := range f.cfg.Credentials {
		if known.For == nil || known.For(f.module) {
			shown = append(shown, egress.Credential{
				Origin: known.Origin, Authorization: basic(known.Username, known.Password.Reveal()),
			})
		}
	}
	return shown
}

// packageRefusal is what an answer other than 200 to the request for a package means.
func packageRefusal(res *http.Response) error {
	where := res.Request.URL.Host
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %s answered %s: set a credential for %s", modproxy.ErrDenied, where, res.Status, where)
	case http.StatusNotFound, http.StatusGone:
		// The registry says that there is such a version: it is not absent.
		return fmt.Errorf("%w: %s answered %s", modproxy.ErrUnavailable, where, res.Status)
	}
	return fmt.Errorf("%w: %s answered %s", modproxy.ErrUnavailable, where, res.Status)
}

// sniff tells an archive's format from its first bytes, as OpenTofu does for a
// package that comes from the registry itself (internal/registry/package_extract.go).
func sniff(f io.ReaderAt) (archive.Format, error) {
	head := make([]byte, 6)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return 0, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	}
	for magic, format := range map[string]archive.Format{
		"PK\x03\x04":   archive.Zip,
		"\x1f\x8b":     archive.TarGzip,
		"BZh":          archive.TarBzip2,
		"\xfd7zXZ\x00": archive.TarXz,
	} {
		if bytes.HasPrefix(head[:n], []byte(magic)) {
			return format, nil
		}
	}
	return 0, fmt.Errorf("%w: neither a zip archive nor a tar archive compressed by gzip, bzip2 or xz", modproxy.ErrInvalid)
}
