package doctor

import (
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"time"
)

// chainProblem verifies the certificates of a server as clients do, and returns a finding about subject, or nil. The first certificate is
// that of the server. If name is empty, it is not compared. Clients trust the system's authorities, or those in SSL_CERT_FILE.
func chainProblem(certs []*x509.Certificate, name, subject string, now time.Time) *Finding {
	problem := func(kind, format string, args ...any) *Finding {
		f := finding(kind, subject, format, args...)
		return &f
	}
	for _, cert := range certs {
		switch {
		case now.After(cert.NotAfter):
			return problem("certificate_expired", "%s expired at %s; the clock of this machine says %s", called(cert, certs), stamp(cert.NotAfter), stamp(now))
		case now.Before(cert.NotBefore):
			return problem("certificate_early", "%s is not valid before %s; the clock of this machine says %s",
				called(cert, certs), stamp(cert.NotBefore), stamp(now))
		}
	}
	leaf, others := certs[0], x509.NewCertPool()
	if name != "" && leaf.VerifyHostname(name) != nil {
		return problem("certificate_name", "it is for %s, and not for %s", namesIn(leaf), name)
	}
	for _, cert := range certs[1:] {
		others.AddCert(cert)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Intermediates: others, CurrentTime: now})
	switch {
	case err == nil:
		return nil
	case !errors.As(err, new(x509.UnknownAuthorityError)):
		return problem("certificate_untrusted", "%v", err)
	}
	top := topOf(certs)
	switch issuer := top.Issuer.String(); {
	case isSelfIssued(leaf):
		return problem("certificate_untrusted", "it is self-signed, and not among the trusted certificates")
	case isSelfIssued(top):
		return problem("certificate_untrusted", "its authority %s is not among the trusted ones", issuer)
	default:
		return problem("certificate_incomplete", "the chain has %d of its certificates, and ends at the issuer %s, which is neither in it nor trusted: "+
			"an intermediate certificate is missing, or the authority is private", len(certs), issuer)
	}
}

// topOf returns the end of the chain of issuers that begins at the first certificate of a list.
func topOf(certs []*x509.Certificate) *x509.Certificate {
	top := certs[0]
	for range certs { // bounds the loop if certificates have signed each other
		i := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return c != top && top.CheckSignatureFrom(c) == nil })
		if isSelfIssued(top) || i < 0 {
			break
		}
		top = certs[i]
	}
	return top
}

func isSelfIssued(c *x509.Certificate) bool { return string(c.RawIssuer) == string(c.RawSubject) }

// called returns the words for a certificate of a list in a message.
func called(c *x509.Certificate, certs []*x509.Certificate) string {
	if c == certs[0] {
		return "the certificate"
	}
	return "the intermediate certificate " + c.Subject.String()
}

// namesIn returns the names in a certificate, at most five, for a message.
func namesIn(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no name"
	}
	return strings.Join(names[:min(len(names), 5)], ", ")
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
