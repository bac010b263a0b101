package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch/archive"
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
		f.named = f.hops == 0
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

const (
	// How often an archive is asked for that does not come to its end, or a page that
	// says where one is.
	archiveTries = 3
	// The first pause between two tries, which doubles, and the longest pause that a
	// server may ask for.
	archivePause    = 500 * time.Millisecond
	archiveMaxPause = 10 * time.Second
)

// download receives an archive into a file without a name: a checksum covers it
// whole, and a zip is read from its end. What is received counts, also of tries that
// come to nothing: where too little is left because of them, their error is the error.
func (f *fetch) download(ctx context.Context, s source) (file *os.File, size int64, err error) {
	left := f.cfg.MaxReceived
	var trouble error // of the last try
	err = f.patiently(ctx, func() (passes bool, err error) {
		file, size, passes, err = f.downloadOnce(ctx, s, left)
		if trouble != nil && errors.Is(err, egress.ErrTooLarge) {
			return false, trouble
		}
		left, trouble = left-size, err
		return passes && left > 0, err
	})
	return file, size, err
}

// patiently calls ask, and again after a pause as long as it says that the next try
// may do better. A pause that a server asks for is made unless it is too long.
func (f *fetch) patiently(ctx context.Context, ask func() (passes bool, err error)) error {
	for try := 1; ; try++ {
		passes, err := ask()
		if err == nil || !passes || try == archiveTries || f.budget.Spent() {
			return err
		}
		wait := archivePause << (try - 1)
		var later *modproxy.RetryLater
		if errors.As(err, &later) {
			wait = max(wait, time.Until(later.After))
		}
		if deadline, ok := ctx.Deadline(); wait > archiveMaxPause || ok && time.Until(deadline) <= wait {
			return err
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// downloadOnce is download with one try. With an error, size is what was received of
// the body, and passes reports whether the next try may do better.
func (f *fetch) downloadOnce(ctx context.Context, s source, most int64) (file *os.File, size int64, passes bool, err error) {
	res, err := f.cfg.Egress.Get(ctx, egress.Request{
		URL:         s.url.String(),
		Credentials: f.credentialsFor(s),
		Redirects:   maxRequests,
		Budget:      f.budget,
		Attempts:    3,
		MaxBytes:    most,
		Archive:     true,
	})
	if err != nil {
		return nil, 0, egress.MayPass(err), outgoing(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		err, passes := packageRefusal(res)
		return nil, 0, passes, err
	}
	if file, err = scratchFile(f.cfg.Scratch); err != nil {
		return nil, 0, false, err
	}
	meter := modproxy.MeterOf(ctx)
	defer meter.Begin()()
	body := &noting{Reader: res.Body, meter: meter}
	if size, err = io.Copy(file, body); err != nil {
		file.Close()
		return nil, size, body.err != nil && egress.MayPass(body.err), outgoing(err)
	}
	return file, size, false, nil
}

// noting notes the error of a reader, to tell it from that of a writer, and counts what
// is read.
type noting struct {
	io.Reader
	meter *modproxy.Meter
	err   error
}

func (n *noting) Read(p []byte) (int, error) {
	k, err := n.Reader.Read(p)
	n.meter.Add(int64(k))
	if err != nil && err != io.EOF {
		n.err = err
	}
	return k, err
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

// packageRefusal is what an answer other than 200 to the request for a package means,
// and whether it may be another one soon.
func packageRefusal(res *http.Response) (err error, passes bool) {
	where := res.Request.URL.Host
	switch status := res.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("%w: %s answered %s: set a credential for %s", modproxy.ErrDenied, where, res.Status, where), false
	case status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented:
		err = fmt.Errorf("%w: %s answered %s", modproxy.ErrUnavailable, where, res.Status)
		if after, ok := retryAfter(res.Header.Get("Retry-After"), time.Now()); ok {
			err = &modproxy.RetryLater{After: after, Err: err}
		}
		return err, true
	case status == http.StatusNotFound || status == http.StatusGone:
		return fmt.Errorf("%w: %s answered %s", modproxy.ErrNotFound, where, res.Status), false
	}
	return fmt.Errorf("%w: %s answered %s", modproxy.ErrUnavailable, where, res.Status), false
}

// sniff tells an archive's format from its first bytes, as OpenTofu does for a
// package that comes from the registry itself (internal/registry/package_extract.go).
func sniff(f io.ReaderAt) (archive.Format, error) {
	head := make([]byte, 6)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
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
	return "", fmt.Errorf("%w: neither a zip archive nor a tar archive compressed by gzip, bzip2 or xz", modproxy.ErrInvalid)
}
