package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/upstream"
)

// answer is the result of a request to an upstream.
type answer struct {
	host     string
	date, at time.Time // the times of the registry (zero if unknown) and of this machine at the answer
	err      error
	skipped  bool // not requested: its proxy does not answer, and has a finding
}

// askUpstreams sends a request to each upstream, all at the same time.
func (e *examination) askUpstreams(ctx context.Context) []answer {
	network, registries := e.network()
	var hosts []config.Upstream
	for _, u := range e.Config.Upstreams {
		if u.Host != "*" {
			hosts = append(hosts, u)
		}
	}
	answers := make([]answer, len(hosts))
	if network == nil {
		return nil
	}
	var all sync.WaitGroup
	for i, u := range hosts {
		all.Go(func() {
			a := &answers[i]
			a.host = u.Host
			if p := network.Proxy(urlOf(u)); p != nil && e.proxyFailed(ctx, p) != nil {
				a.skipped = true
				return
			}
			ctx, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			a.date, a.err = registries.Probe(ctx, u.Host)
			a.at = time.Now()
		})
	}
	all.Wait()
	return answers
}

// urlOf returns the URL of the first request to an upstream.
func urlOf(u config.Upstream) *url.URL {
	if set, err := url.Parse(u.Modules); err == nil && set.Host != "" {
		return set
	}
	return &url.URL{Scheme: "https", Host: u.Host}
}

// upstreams reports upstreams that do not answer as registries.
func (e *examination) upstreams(context.Context) (found []Finding) {
	for _, a := range e.answers() {
		if a.err == nil || a.skipped {
			continue
		}
		found = append(found, finding(kindOfUpstream(a.err), a.host, "%v%s", a.err, clockText(a.err)))
	}
	return found
}

// kindOfUpstream returns the kind of an error of [upstream.Client.Probe].
func kindOfUpstream(err error) string {
	answered, isAnswer := errors.AsType[*fetch.Answered](err)
	switch {
	case errors.Is(err, egress.ErrRefused):
		return "upstream_refused"
	case errors.As(err, new(*net.DNSError)):
		return "upstream_name"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "upstream_certificate"
	case errors.Is(err, upstream.ErrNotJSON):
		return "upstream_portal"
	case errors.Is(err, upstream.ErrNoModules):
		return "upstream_no_modules"
	case errors.Is(err, modproxy.ErrDenied), isAnswer && slices.Contains([]int{401, 403}, answered.Code):
		return "upstream_credentials"
	}
	return "upstream_unavailable"
}

// clockText returns the time of this machine for a message about a certificate that is not valid at this time, or an empty string.
func clockText(err error) string {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return fmt.Sprintf(" (the clock of this machine says %s)", time.Now().UTC().Format(time.RFC3339))
	}
	return ""
}
