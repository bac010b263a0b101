package web

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// maxTries is how often a server is asked for an archive that does not come to its end, or for a page.
const maxTries = 3

// download receives the archive into a file without a name: a checksum covers it whole, and a zip is read from its
// end. What is received counts, also of tries that come to nothing: where too little is left because of them, their
// error is the error.
func (v *visit) download(ctx context.Context) (file *os.File, size int64, err error) {
	left := v.MaxReceived
	var trouble error // of the last try
	err = fetch.Retry(ctx, maxTries, func() (again bool, err error) {
		file, size, again, err = v.downloadOnce(ctx, left)
		if trouble != nil && errors.Is(err, egress.ErrTooLarge) {
			return false, trouble
		}
		left, trouble = left-size, err
		return again && left > 0, err
	})
	return file, size, err
}

// downloadOnce is download with one try. With an error, size is what was received of the body.
func (v *visit) downloadOnce(ctx context.Context, most int64) (file *os.File, size int64, again bool, err error) {
	res, again, err := v.get(ctx, egress.Request{URL: v.url.String(), Attempts: 3, MaxBytes: most, Archive: true})
	if err != nil {
		return nil, 0, again, err
	}
	defer res.Body.Close()
	if file, err = fetch.UnnamedFile(v.Scratch); err != nil {
		return nil, 0, false, err
	}
	meter := modproxy.MeterOf(ctx)
	defer meter.Begin()()
	if size, err = io.Copy(io.MultiWriter(file, counter{meter}), res.Body); err != nil {
		file.Close()
		local := errors.As(err, new(*fs.PathError)) // the file, and not what is received
		return nil, size, !local && v.mayPass(err), fetch.Outgoing(err)
	}
	return file, size, false, nil
}

// counter counts what is written to it.
type counter struct{ *modproxy.Meter }

func (c counter) Write(p []byte) (int, error) {
	c.Add(int64(len(p)))
	return len(p), nil
}
