package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// Limits bound what clients may ask for. A zero field is no bound.
type Limits struct {
	// Requests is how many requests are answered at the same time, those that
	// wait for a package included. Further ones are told to come back.
	Requests int
	// Rate is how many requests a second one client may send, and as many more at
	// once. A client is who it says with a token, or the address it comes from.
	Rate int
}

const (
	// A client must take this many bytes in slowTime, or it is cut off.
	slowBytes = 64 << 10
	slowTime  = 60 * time.Second
	// The clients whose rate is remembered.
	maxClients = 16 << 10
)

// bounds is what has been used of Limits.
type bounds struct {
	Limits
	running atomic.Int64
	clients *lru.Cache[string, *rate.Limiter]
}

func newBounds(l Limits) *bounds {
	clients, err := lru.New[string, *rate.Limiter](maxClients)
	if err != nil {
		panic(err) // the size is not positive
	}
	return &bounds{Limits: l, clients: clients}
}

var (
	errBusy = errors.New("more requests at the same time than this proxy answers")
	errRate = errors.New("more requests than one client may send")
)

// enter lets a request of client in, or says when it should come back.
func (b *bounds) enter(client string) (leave func(), err error) {
	if b.Rate > 0 {
		limiter, ok := b.clients.Get(client)
		if !ok {
			limiter = rate.NewLimiter(rate.Limit(b.Rate), b.Rate)
			b.clients.Add(client, limiter)
		}
		if r := limiter.Reserve(); r.Delay() > 0 {
			wait := r.Delay()
			r.Cancel()
			return nil, &modproxy.RetryLater{After: time.Now().Add(wait), Err: errRate}
		}
	}
	if n := b.running.Add(1); b.Requests > 0 && n > int64(b.Requests) {
		b.running.Add(-1)
		return nil, &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: errBusy}
	}
	return func() { b.running.Add(-1) }, nil
}

// client is who sent r: the principal, or else the address that it came from.
func client(r *http.Request) string {
	if p := auth.PrincipalOf(r.Context()); p.ID != "" {
		return p.String()
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// paced gives a client that takes its answer too slowly no more of it. It hands
// on pieces of slowBytes, each with a deadline of its own; files still go out by
// sendfile.
type paced struct {
	http.ResponseWriter
	control *http.ResponseController
}

func newPaced(w http.ResponseWriter) *paced {
	return &paced{w, http.NewResponseController(w)}
}

func (p *paced) extend() { _ = p.control.SetWriteDeadline(time.Now().Add(slowTime)) } // not every writer has one

func (p *paced) Write(b []byte) (written int, err error) {
	for len(b) > 0 && err == nil {
		piece := b[:min(len(b), slowBytes)]
		b = b[len(piece):]
		p.extend()
		var n int
		n, err = p.ResponseWriter.Write(piece)
		written += n
	}
	return written, err
}

func (p *paced) ReadFrom(src io.Reader) (written int64, err error) {
	for {
		p.extend()
		n, err := io.CopyN(p.ResponseWriter, src, slowBytes)
		written += n
		if err == io.EOF {
			return written, nil
		}
		if err != nil {
			return written, err
		}
	}
}

func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }
