package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

const (
	// frontQuestion is a request for versions that every modproxy rejects, with the reason in the reason phrase of the answer.
	frontQuestion = "/-/v1/modules/a/b/c/versions"
	frontPause    = time.Second     // before the first request; each later pause is four times the one before
	frontMost     = 5 * time.Minute // a pause of this length or more ends the check
	frontTimeout  = 10 * time.Second
)

// checkFront logs once if clients at the public URL do not receive the reasons of errors. The cause is a reverse proxy, the
// front, that speaks HTTP/2 to clients or drops reason phrases. The front may start later than modproxy.
func (a *App) checkFront(ctx context.Context) {
	if a.config.PublicURL == "" || a.config.Offline {
		return
	}
	for pause := frontPause; pause < frontMost; pause *= 4 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		problem, err := askFront(ctx, a.BaseURL())
		if err != nil {
			continue // the public URL cannot be reached from here, or not yet
		}
		if problem != "" {
			a.warnOfFront(problem)
		}
		return
	}
}

// warnOfFront logs why clients do not receive reasons. It logs once.
func (a *App) warnOfFront(problem string) {
	a.frontWarned.Do(func() {
		logEvent(a.log, "reasons_lost", nil, zap.String("public_url", a.BaseURL()), zap.String("problem", problem), zap.String("note",
			`clients print numbers instead of reasons: let the front speak HTTP/1.1 to clients, see docs/how-to/reverse-proxy.md`))
	})
}

// watchFront returns a handler that calls h, and warns if a trusted proxy reports that it received a request by HTTP/2 or later.
// This works even if the public URL is not known or cannot be reached from here.
func (a *App) watchFront(h http.Handler) http.Handler {
	trusted := a.config.TrustedProxies
	if len(trusted) == 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if protocol := receivedBy(r.Header["Via"]); protocol >= "2" {
			from, err := netip.ParseAddrPort(r.RemoteAddr)
			if err == nil && slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) }) {
				a.warnOfFront("the front speaks HTTP/" + protocol + " to clients, which has no reason phrases")
			}
		}
		h.ServeHTTP(w, r)
	})
}

// receivedBy returns the major version of HTTP by which the nearest proxy received a request, according to its Via header (RFC
// 9110, section 7.6.3). It returns "1", "2" or "3", or an empty string if the version is not known.
func receivedBy(via []string) string {
	if len(via) == 0 {
		return ""
	}
	elements := strings.Split(via[len(via)-1], ",")
	protocol, _, named := strings.Cut(strings.TrimSpace(elements[len(elements)-1]), " ")
	if name, version, ok := strings.Cut(protocol, "/"); ok {
		named = named && strings.EqualFold(name, "HTTP")
		protocol = version
	}
	if major, _, _ := strings.Cut(protocol, "."); named && (major == "1" || major == "2" || major == "3") {
		return major
	}
	return ""
}

// askFront returns the reason why clients at a URL do not receive the reasons of errors, or an empty string. It returns an error
// if modproxy does not answer there.
func askFront(ctx context.Context, base string) (problem string, err error) {
	ctx, cancel := context.WithTimeout(ctx, frontTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+frontQuestion, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("User-Agent", "modproxy (checks what is in front of it)")
	client := &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			ForceAttemptHTTP2: true, // as clients do
			// The request has no secret, and only the form of the answer counts.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return "", err
	}
	switch {
	case !bytes.HasPrefix(body, []byte(`{"errors":[`)):
		return "", fmt.Errorf("modproxy does not answer at %s", base)
	case res.ProtoMajor > 1:
		return "the front speaks " + res.Proto + " to clients, which has no reason phrases", nil
	case !strings.Contains(res.Status, "("):
		return "the front drops reason phrases", nil
	}
	return "", nil
}
