package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/pack"
)

// Download receives one file, with retries. It is for getters over http.
type Download struct {
	Scratch string         // the directory of the file
	Most    int64          // bytes, those of failed tries included
	Budget  *egress.Budget // of the requests
	// Get sends the request for the file, whose body may have at most most bytes. again reports whether a retry may succeed after an error.
	Get func(ctx context.Context, most int64) (res *http.Response, again bool, err error)
}

// Receive receives the file into an unlinked file, which the caller closes. If failed tries leave too few bytes for another one, Receive
// returns the error of the last failed try.
func (d Download) Receive(ctx context.Context) (file *os.File, size int64, err error) {
	left := d.Most
	var trouble error // of the last try
	err = Retry(ctx, func() (again bool, err error) {
		file, size, again, err = d.once(ctx, left)
		if trouble != nil && errors.Is(err, egress.ErrTooLarge) {
			return false, trouble
		}
		left, trouble = left-size, err
		return again && left > 0, err
	})
	if errors.Is(err, egress.ErrTooLarge) {
		err = fmt.Errorf("%w (operator: fetch.max_received)", err)
	}
	return file, size, err
}

// once is one try. With an error, size is the number of received bytes of the body.
func (d Download) once(ctx context.Context, most int64) (file *os.File, size int64, again bool, err error) {
	meter := modproxy.MeterOf(ctx)
	defer meter.Begin()()
	res, again, err := d.Get(ctx, most)
	if err != nil {
		return nil, 0, again, err
	}
	defer res.Body.Close()
	if file, err = pack.UnnamedFile(d.Scratch); err != nil {
		return nil, 0, false, err
	}
	if size, err = io.Copy(io.MultiWriter(file, counter{meter}), res.Body); err != nil {
		file.Close()
		local := errors.As(err, new(*fs.PathError)) // an error of the file, not of the connection
		again, err = Failed(d.Budget, !local && egress.MayPass(err), Outgoing(err))
		return nil, size, again, err
	}
	return file, size, false, nil
}

// counter counts the bytes that are written to it.
type counter struct{ *modproxy.Meter }

func (c counter) Write(p []byte) (int, error) {
	c.Add(int64(len(p)))
	return len(p), nil
}

// Failed reports whether to retry after err, within budget, and returns the error otherwise. passes reports whether err is temporary. A
// temporary error remains temporary if the budget has no request left for a retry.
func Failed(budget *egress.Budget, passes bool, err error) (again bool, _ error) {
	if _, later := errors.AsType[*modproxy.RetryLater](err); passes && !later && budget.Spent() {
		err = &modproxy.Temporary{Err: err}
	}
	return passes && !budget.Spent(), err
}
