package doctor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
)

// listenPause is the time between two attempts to listen.
const listenPause = 200 * time.Millisecond

// listenAddress examines whether modproxy can listen, whether its URL for clients is known, and whether connections are encrypted. It does not
// listen itself if modproxy serves.
func (e *examination) listenAddress(ctx context.Context) (found []Finding) {
	c := e.Config
	_, port, _ := net.SplitHostPort(c.Listen)
	if c.IsSound("public_url") && c.PublicURL == "" && listensEverywhere(c.Listen) {
		found = append(found, finding("public_url_missing", "public_url", "modproxy listens on %s", c.Listen))
	}
	if c.IsSound("public_url", "tls", "anonymous", "auth", "trusted_proxies") && c.RequiresToken() && !e.isEncrypted() {
		found = append(found, finding("unencrypted", "tls", "clients need a token, and modproxy listens on %s without TLS", c.Listen))
	}
	if e.serving != nil || port == "0" {
		return found
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if errors.Is(err, syscall.EADDRINUSE) { // another doctor may use the address for a moment
		time.Sleep(listenPause)
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	}
	switch {
	case err == nil:
		l.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		found = append(found, finding("port_in_use", c.Listen, "%v", err))
	case errors.Is(err, syscall.EACCES):
		found = append(found, finding("listen_denied", c.Listen, "%v", err))
	default:
		found = append(found, finding("listen_address", c.Listen, "%v", err))
	}
	return found
}

// isEncrypted reports whether clients send tokens encrypted, or only on a loopback address.
func (e *examination) isEncrypted() bool {
	c := e.Config
	if c.PublicURL != "" {
		return strings.HasPrefix(c.PublicURL, "https://") || config.IsLocalURL(c.PublicURL)
	}
	local, err := c.LocalURL()
	return c.TLS.CertFile != "" || err == nil && config.IsLocalURL(local) && !listensEverywhere(c.Listen)
}

// listensEverywhere reports whether a listen address has no address or an unspecified one: modproxy then listens on all interfaces.
func listensEverywhere(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip, errIP := netip.ParseAddr(host)
	return err == nil && (host == "" || errIP == nil && ip.IsUnspecified())
}

// certificate examines the files of the certificate.
func (e *examination) certificate(context.Context) []Finding {
	c := e.Config
	if c.TLS.CertFile == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile)
	if err != nil {
		return []Finding{finding("certificate_files", c.TLS.CertFile, "%v", err)}
	}
	certs, err := parseAll(pair.Certificate)
	if err != nil {
		return []Finding{finding("certificate_files", c.TLS.CertFile, "%v", err)}
	}
	if f := chainProblem(certs, hostOf(c.PublicURL), c.TLS.CertFile, time.Now()); f != nil {
		return []Finding{*f}
	}
	if expires, err := app.CheckCertificate(c); err == nil && expires != nil {
		return []Finding{finding("certificate_expires", c.TLS.CertFile, "it expires at %s", stamp(certs[0].NotAfter))}
	}
	return nil
}

func parseAll(raw [][]byte) (certs []*x509.Certificate, err error) {
	for _, der := range raw {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		certs = append(certs, cert)
	}
	return certs, nil
}

// publicURL requests the URL of the proxy as clients do. While modproxy does not run, a missing answer is not a finding.
func (e *examination) publicURL(ctx context.Context) (found []Finding) {
	if e.Config.PublicURL == "" {
		return nil
	}
	r := e.reach(ctx, e.ownBase())
	if r.problem != nil && !r.isReported && (r.isFinal || e.serving != nil) {
		found = append(found, *r.problem)
	}
	return found
}

// ownBase returns the URL of the proxy for clients, or an empty string if it is unknown.
func (e *examination) ownBase() string {
	if e.Config == nil || !e.Config.IsSound("public_url", "listen", "tls") {
		return ""
	}
	base, _ := e.Config.BaseURL() // an error means that the system will choose the port
	return base
}

// reached is the result of a request to a proxy.
type reached struct {
	problem    *Finding // nil if modproxy answers
	isFinal    bool     // the problem exists whether or not modproxy runs
	isReported bool     // another check reports the problem
}

// reach requests /-/healthz of the modproxy at base as clients do: through the proxies in the environment, and with the authorities that clients
// trust. It sends no token.
func (e *examination) reach(ctx context.Context, base string) reached {
	return once(&e.reaches, base, func() reached { return e.reachNow(ctx, base) })
}

func (e *examination) reachNow(ctx context.Context, base string) reached {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	problem := func(kind, format string, args ...any) reached {
		f := finding(kind, base, format, args...)
		return reached{problem: &f}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/-/healthz", nil)
	if err != nil {
		return problem("url_unreachable", "%v", err)
	}
	if p, err := http.ProxyFromEnvironment(r); err == nil && p != nil && e.proxyFailed(ctx, p) != nil {
		return reached{problem: &Finding{}, isReported: true}
	}
	var shown []*x509.Certificate
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, // chainProblem verifies the certificates, and names what is wrong
			VerifyConnection: func(s tls.ConnectionState) error {
				shown = s.PeerCertificates
				return nil
			},
		},
	}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if len(shown) > 0 {
		if f := chainProblem(shown, hostOf(base), base, time.Now()); f != nil {
			return reached{problem: f, isFinal: true, isReported: e.isFromFile(shown)}
		}
	}
	dns, isLookup := errors.AsType[*net.DNSError](err)
	switch {
	case isLookup && dns.IsNotFound:
		f := problem("name_unresolved", "%v", err)
		f.isFinal = true
		return f
	case err != nil:
		return problem("url_unreachable", "%v", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64))
	if answer.StatusCode != http.StatusOK || err != nil || strings.TrimSpace(string(text)) != "ok" {
		return problem("url_other", "/-/healthz answers %s, and not that of modproxy", answer.Status)
	}
	return reached{}
}

// isFromFile reports whether certificates are those of the configured file, which has its own check.
func (e *examination) isFromFile(shown []*x509.Certificate) bool {
	c := e.Config
	if c == nil || !c.IsSound("tls", "public_url") || c.TLS.CertFile == "" {
		return false
	}
	pair, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile)
	if err != nil || len(pair.Certificate) != len(shown) {
		return false
	}
	for i, cert := range shown {
		if !bytes.Equal(cert.Raw, pair.Certificate[i]) {
			return false
		}
	}
	return true
}
