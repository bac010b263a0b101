package upstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/archive"
	"github.com/modproxy/modproxy/internal/spool"
	"github.com/modproxy/modproxy/release"
)

// incoming is a download of the zip archive of a provider for one platform.
type incoming struct {
	client *Client
	of     modproxy.Ref
	said   *release.Download
	file   *spool.File
	p      *modproxy.Package

	first *http.Response // the first answer, before its body is received
	once  sync.Once      // guards the download, whose result bring returns
	facts modproxy.ProviderFacts
	err   error

	// State of the received bytes:
	hash  hash.Hash
	size  int64
	meter *modproxy.Meter
}

// zip downloads the package of v for the platform of d, into a file that Close removes. If the caller allows it and the
// size is known, the package is returned before the download: its reader follows the file, and the caller calls
// Complete, which downloads it.
func (c *Client) zip(ctx context.Context, v modproxy.Ref, d *release.Download) (p *modproxy.Package, err error) {
	file, err := spool.New(c.cfg.Providers.Scratch)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	}
	in := &incoming{
		client: c, of: v, said: d, file: file, hash: sha256.New(), meter: modproxy.MeterOf(ctx),
		p: &modproxy.Package{Digest: d.Archive.Digest, Time: time.Now(), Source: modproxy.Source{URL: egress.Redact(d.ZipURL)}},
	}
	in.p.Sum = modproxy.NewSum(in.p.Digest)
	err = fetch.Retry(ctx, func() (again bool, err error) {
		in.first, again, err = in.ask(ctx)
		return again, err
	})
	if err != nil {
		file.Close()
		return nil, err
	}
	r, _ := file.Open(ctx) // which was not closed
	in.p.Body = body{received{r, in}}
	in.p.Size = in.first.ContentLength
	if modproxy.AllowsPartial(ctx) && 0 < in.p.Size && in.p.Size <= c.cfg.Providers.maxReceived() {
		in.p.Partial = in
		return in.p, nil
	}
	if in.p.Facts, err = in.bring(ctx); err != nil {
		in.p.Close()
		return nil, err
	}
	in.p.Size = in.size
	return in.p, nil
}

// received reads a package while it is being downloaded.
type received struct {
	*spool.Reader
	in *incoming
}

// Verify implements [modproxy.Body]. It waits until the package was downloaded and verified.
func (r received) Verify(ctx context.Context) error {
	_, err := r.in.Complete(ctx)
	return err
}

// body is the reader of the caller that requested the package.
type body struct{ received }

// Close removes the file. A download that has not begun never begins.
func (b body) Close() error {
	b.in.once.Do(func() {
		b.in.err = fmt.Errorf("%w: it was given up", modproxy.ErrUnavailable)
		b.in.first.Body.Close()
	})
	return errors.Join(b.Reader.Close(), b.in.file.Close())
}

// Open implements [modproxy.Partial].
func (in *incoming) Open(ctx context.Context) (modproxy.Body, error) {
	r, err := in.file.Open(ctx)
	if err != nil {
		return nil, err
	}
	return received{r, in}, nil
}

// Complete implements [modproxy.Partial].
func (in *incoming) Complete(ctx context.Context) (modproxy.ProviderFacts, error) {
	facts, err := in.bring(ctx)
	return facts, modproxy.Wrap("package", in.of.ForPlatform(in.said.Archive.Platform), err)
}

// bring downloads and checks the archive on its first call. Later calls return the same result.
func (in *incoming) bring(ctx context.Context) (modproxy.ProviderFacts, error) {
	in.once.Do(func() {
		in.err = fmt.Errorf("%w: it did not arrive", modproxy.ErrUnavailable) // the error if this function panics
		defer func() { in.file.End(in.err) }()
		in.err = fetch.Retry(ctx, func() (again bool, err error) {
			res := in.first
			if in.first = nil; res == nil {
				if res, again, err = in.ask(ctx); err != nil {
					return again, err
				}
			}
			return in.receive(res)
		})
		if in.err == nil {
			in.err = in.check()
		}
	})
	return in.facts, in.err
}

// ask requests the archive, or the rest of it after the bytes received so far.
func (in *incoming) ask(ctx context.Context) (res *http.Response, again bool, err error) {
	r := egress.Request{MaxBytes: in.client.cfg.Providers.maxReceived(), Archive: true}
	if in.size > 0 {
		r.Header = http.Header{"Range": {fmt.Sprintf("bytes=%d-", in.size)}}
	}
	if res, again, err = in.client.getFile(ctx, in.of.Host, in.said.ZipURL, r); err != nil {
		return nil, again, err
	}
	if res.StatusCode == http.StatusPartialContent && !strings.HasPrefix(res.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", in.size)) {
		res.Body.Close()
		return nil, false, fmt.Errorf("%w: %s answered with another part than was asked for", modproxy.ErrUnavailable, in.p.Source.URL)
	}
	if in.size > 0 {
		return res, false, nil
	}
	return in.refusePage(res)
}

// refusePage returns res, or an error if its body begins like an HTML page.
func (in *incoming) refusePage(res *http.Response) (_ *http.Response, again bool, err error) {
	head := make([]byte, 512)
	n, err := io.ReadAtLeast(res.Body, head, 1)
	switch {
	case err != nil && err != io.EOF:
		res.Body.Close()
		return nil, egress.MayPass(err), fetch.Outgoing(err)
	case archive.IsPage(head[:n]):
		res.Body.Close()
		return nil, false, fmt.Errorf("%w: %s is an HTML page instead of a zip archive: the address may want a login, or be that of a page",
			modproxy.ErrInvalid, in.p.Source.URL)
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head[:n]), res.Body), res.Body}
	return res, false, nil
}

// receive appends the new bytes in the body of an answer to the file.
func (in *incoming) receive(res *http.Response) (again bool, err error) {
	defer res.Body.Close()
	defer in.meter.Begin()()
	if res.StatusCode == http.StatusOK && in.size > 0 { // the answer repeats the whole archive
		seen := sha256.New()
		_, err := io.CopyN(io.MultiWriter(seen, counter{in.meter}), res.Body, in.size)
		switch {
		case err == io.EOF, err == nil && !bytes.Equal(seen.Sum(nil), in.hash.Sum(nil)):
			return false, fmt.Errorf("%w: %s answered the second time with something else", modproxy.ErrUnavailable, in.p.Source.URL)
		case err != nil:
			return egress.MayPass(err), fetch.Outgoing(err)
		}
	}
	buf := make([]byte, 128<<10)
	for {
		n, err := res.Body.Read(buf)
		if n > 0 {
			in.meter.Add(int64(n))
			if _, err := in.file.Write(buf[:n]); err != nil {
				return false, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
			}
			in.hash.Write(buf[:n])
			in.size += int64(n)
		}
		switch most := in.client.cfg.Providers.maxReceived(); {
		case in.size > most:
			return false, fmt.Errorf("%w: %s has more than the %d bytes that are allowed (operator: providers.max_received)",
				modproxy.ErrInvalid, in.p.Source.URL, most)
		case err == io.EOF:
			return false, nil
		case err != nil:
			return egress.MayPass(err), fetch.Outgoing(err)
		}
	}
}

// check checks the received bytes, and sets the facts about them.
func (in *incoming) check() error {
	if got := modproxy.Digest(in.hash.Sum(nil)); got != in.said.Archive.Digest {
		return fmt.Errorf("%w: %s: its SHA-256 is %s, but the registry says %s", modproxy.ErrInvalid, in.p.Source.URL, got, in.said.Archive.Digest)
	}
	limits := release.ZipLimits{Bytes: in.client.cfg.Providers.MaxUnpacked}
	facts, err := release.CheckZip(in.file, in.size, in.of.Name, limits)
	if err != nil {
		return fmt.Errorf("%s: %w", in.p.Source.URL, err)
	}
	if in.p.Partial != nil && in.size != in.p.Size {
		return fmt.Errorf("%w: %s has %d bytes, and said that it has %d", modproxy.ErrUnavailable, in.p.Source.URL, in.size, in.p.Size)
	}
	in.facts.Hashes = modproxy.NewHashes(facts.Dir, facts.Sum)
	return nil
}

// counter counts the bytes that are written to it.
type counter struct{ *modproxy.Meter }

func (c counter) Write(p []byte) (int, error) {
	c.Add(int64(len(p)))
	return len(p), nil
}
