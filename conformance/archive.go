package conformance

import (
	"archive/tar"
	"archive/zip"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// Maximum sizes of a checked package, in bytes.
const (
	maxPackage  = 1 << 30
	maxUnpacked = 16 << 30
)

// archive is the result of a request for a package.
type archive struct {
	*answer        // without its body
	came    bool   // the client accepts the status
	size    int64  // as received
	tooMuch bool   // larger than maxPackage
	unread  error  // why it could not be unpacked
	files   []file // its entries, without directories
}

type file struct {
	name string
	mode fs.FileMode
	link bool
}

var errXZ = errors.New("xz archives are not checked")

// formats are the suffixes by which clients recognize an archive. More than one may match.
var formats = map[string]func(*os.File, int64) ([]file, error){
	"tar.gz": fromTar(ungzip), "tgz": fromTar(ungzip), "tar.bz2": fromTar(unbzip), "tar.tbz2": fromTar(unbzip),
	"tar.xz": fromTar(unxz), "txz": fromTar(unxz), "zip": fromZip,
}

// sniffed is the format of a package that OpenTofu downloads directly: OpenTofu detects the format from the content.
const sniffed = "the detected format"

// checkovKnows are the suffixes that Checkov recognizes.
var checkovKnows = []string{"zip", "tar.bz2", "tar.gz", "tgz", "tar.xz", "txz"}

// target is a package to download by http or https.
type target struct {
	url    string // as the client requests it
	format string // empty if the client would search a page for an archive instead
	subdir string
	direct bool // OpenTofu downloads it itself
	token  bool // and sends its token
}

// target returns the package that the client downloads. ok is false if it is not downloaded by http, or if the address
// is wrong.
func (v *visit) target() (target, bool) {
	at, ok := v.where()
	whole, subdir := splitSubdir(at)
	u, err := url.Parse(whole)
	if !ok || err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return target{}, false
	}
	if body := v.answersDirectly(); body != nil {
		return target{url: at, format: sniffed, direct: true, token: *body.Credentials}, true
	}
	if v.name == checkov {
		return target{url: at, format: checkovFormat(at)}, true
	}
	t, q := target{subdir: subdir}, u.Query()
	for suffix := range formats {
		if strings.HasSuffix(u.Path, "."+suffix) && len(suffix) > len(t.format) {
			t.format = suffix
		}
	}
	if named := q.Get("archive"); named != "" {
		if t.format = named; formats[named] == nil {
			t.format = ""
		}
	}
	if q.Has("archive") || q.Has("checksum") {
		q.Del("archive")
		q.Del("checksum")
	}
	u.RawQuery = q.Encode() // go-getter sorts the query and escapes it again
	t.url = u.String()
	return t, true
}

// checkovFormat finds the format as Checkov does. Checkov ignores a directory behind the archive and splits queries at
// every equals sign.
func checkovFormat(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	for _, suffix := range checkovKnows {
		if strings.HasSuffix(u.Path, suffix) {
			return suffix
		}
	}
	for _, q := range strings.Split(u.RawQuery, "&") {
		if strings.HasPrefix(q, "archive=") {
			if named := strings.Split(u.RawQuery, "=")[1]; formats[named] != nil {
				return named
			}
		}
	}
	return ""
}

// fetch returns the package. Clients with equal requests share one download.
func (v *visit) fetch() (target, *archive) {
	t, ok := v.target()
	if !ok || t.format == "" {
		return t, nil
	}
	key := t.format + " " + v.getter + " " + t.url
	if v.packages[key] == nil {
		v.packages[key] = v.download(t)
	}
	return t, v.packages[key]
}

func (v *visit) download(t target) *archive {
	r, err := v.request(http.MethodGet, ofPackage, t.url)
	if err != nil {
		return &archive{answer: &answer{err: err}}
	}
	if t.direct {
		ctx, cancel := context.WithTimeoutCause(v.ctx, v.others, fmt.Errorf("OpenTofu waits %s for all of it", v.others))
		defer cancel()
		r = r.WithContext(ctx)
		r.Header.Set("Accept", "application/zip, application/x-tar; *;q=0.1")
		r.Header.Set("Accept-Encoding", "identity, gzip, *;q=0.1")
		r.Header.Set("X-Terraform-Version", v.header)
		if t.token && v.token != "" {
			r.Header.Set("Authorization", "Bearer "+v.token)
		}
	}
	res, err := v.session.client(v.hops(ofPackage)).Do(r)
	if err != nil {
		return &archive{answer: &answer{err: brief(err)}}
	}
	defer res.Body.Close()
	p := &archive{answer: &answer{
		status: res.StatusCode, header: res.Header, url: res.Request.URL, coding: res.Header.Get("Content-Encoding"),
	}}
	p.came = res.StatusCode == http.StatusOK || res.StatusCode == http.StatusPartialContent || t.direct && res.StatusCode/100 == 2
	if !p.came {
		return p
	}
	f, err := os.CreateTemp("", "modproxy-conformance-")
	if err != nil {
		p.err = err
		return p
	}
	defer os.Remove(f.Name())
	defer f.Close()
	p.size, err = io.Copy(f, io.LimitReader(res.Body, maxPackage+1))
	switch {
	case err != nil && r.Context().Err() == nil:
		p.err = fmt.Errorf("the package ends after %d of %d bytes: %w", p.size, res.ContentLength, err)
	case err != nil:
		p.err = context.Cause(r.Context())
	case p.size > maxPackage:
		p.tooMuch = true
	default:
		p.read(f, t.format)
	}
	return p
}

// read unpacks the package in f.
func (p *archive) read(f *os.File, format string) {
	if _, p.unread = f.Seek(0, io.SeekStart); p.unread != nil {
		return
	}
	if format == sniffed {
		format = sniff(f)
	}
	if formats[format] == nil {
		p.unread = errors.New("it is not an archive")
		return
	}
	if p.files, p.unread = formats[format](f, p.size); p.unread != nil {
		return
	}
	for _, f := range p.files {
		if strings.Contains("/"+f.name+"/", "/../") {
			p.unread = fmt.Errorf("the name %.80q contains \"..\"", f.name)
			return
		}
	}
	if len(p.files) == 0 {
		p.unread = errors.New("it has no files")
	}
}

func ungzip(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
func unbzip(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }
func unxz(io.Reader) (io.Reader, error)     { return nil, errXZ }

func fromTar(open func(io.Reader) (io.Reader, error)) func(*os.File, int64) ([]file, error) {
	return func(f *os.File, _ int64) (files []file, err error) {
		r, err := open(f)
		if err != nil {
			return nil, err
		}
		r = &bounded{r, maxUnpacked}
		for all := tar.NewReader(r); ; {
			h, err := all.Next()
			switch {
			case err == io.EOF:
				_, err = io.Copy(io.Discard, r) // up to the checksum at its end
				return files, err
			case err != nil:
				return nil, err
			case h.Typeflag == tar.TypeXGlobalHeader || h.FileInfo().IsDir():
				continue
			}
			files = append(files, file{h.Name, h.FileInfo().Mode(), h.Typeflag != tar.TypeReg})
		}
	}
}

// sniff returns the format of f by its first bytes, or "" for a format that OpenTofu does not recognize.
func sniff(f *os.File) string {
	magic := make([]byte, 6)
	n, _ := f.ReadAt(magic, 0)
	for format, begin := range map[string]string{"zip": "PK\x03\x04", "tgz": "\x1f\x8b", "tar.bz2": "BZh", "txz": "\xfd7zXZ\x00"} {
		if strings.HasPrefix(string(magic[:n]), begin) {
			return format
		}
	}
	return ""
}

// bounded returns an error if its reader has more than left bytes.
type bounded struct {
	io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("it unpacks to more than %d bytes", int64(maxUnpacked))
	}
	return n, err
}

func fromZip(f *os.File, size int64) (files []file, err error) {
	all, err := zip.NewReader(f, size)
	if err != nil {
		return nil, err
	}
	for _, entry := range all.File {
		if entry.FileInfo().IsDir() {
			continue
		}
		r, err := entry.Open()
		if err == nil {
			_, err = io.Copy(io.Discard, &bounded{r, maxUnpacked})
			err = errors.Join(err, r.Close())
		}
		if err != nil {
			return nil, fmt.Errorf("%.80q: %w", entry.Name, err)
		}
		files = append(files, file{entry.Name, entry.Mode(), !entry.Mode().IsRegular()})
	}
	return files, nil
}
