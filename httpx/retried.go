package httpx

import (
	"net/http"
	"strings"
	"time"

	"github.com/modproxy/modproxy/protocol"
)

// failed is a request of a client with an answer after which the client repeats the request.
type failed struct{ path, client, principal string }

const (
	retryWait  = time.Second      // before a client repeats a request, if the answer has no Retry-After
	retryEarly = time.Second / 10 // by which the clocks of client and proxy may differ
	retryTime  = 15 * time.Second // within which a client repeats a request, and is answered
)

// statusOfRetry returns the status of an answer to r with an error that has that status. Terraform and OpenTofu send a request for
// a location twice. They print no body of a 5xx, and HTTP/2 has no reason phrase: the second answer has a status whose body
// they print.
func (p *Responder) statusOfRetry(r *http.Request, e *Event, status int, wait time.Duration) int {
	if status < 500 || !printsBodies(r) {
		return status
	}
	k := failed{r.URL.Path, e.Client, e.Principal}
	again, ok := p.failed.Get(k)
	switch {
	case !ok:
		if status != http.StatusServiceUnavailable {
			wait = retryWait
		}
		again = time.Now().Add(wait)
		p.failed.Add(k, again, wait+retryTime, 0)
		return status
	case e.Time.Before(again.Add(-retryEarly)):
		return status // another request of the client
	}
	p.failed.Drop(k)
	return http.StatusFailedDependency
}

// printsBodies reports whether the client that sent r prints the body of an answer with a 4xx to it.
func printsBodies(r *http.Request) bool {
	agent := r.UserAgent()
	return (strings.HasPrefix(agent, "Terraform/") || strings.HasPrefix(agent, "OpenTofu/")) &&
		strings.HasSuffix(r.URL.Path, "/download") && !protocol.IsAboutProviders(r.URL.Path)
}
