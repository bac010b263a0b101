package registrytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// An Authority is a certificate authority for tests. Clients trust it only if they are configured to.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate

	// PEM is its certificate, in the format of SSL_CERT_FILE.
	PEM []byte
}

// CA returns the authority of this process, which issues the certificate of every [Upstream]. The first call creates
// it.
var CA = sync.OnceValue(newAuthority)

func newAuthority() *Authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // no randomness
	}
	template := certificate("modproxy test authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err) // the template is wrong
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return &Authority{key: key, cert: cert, PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func certificate(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic(err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(30 * 24 * time.Hour), // modproxy warns before shorter validity ends
	}
}

// Issue issues a certificate for hostnames and IP addresses. It returns the certificate and its key in PEM.
func (a *Authority) Issue(names ...string) (cert, key []byte, err error) {
	return a.IssueFor(-time.Hour, 30*24*time.Hour, names...)
}

// IssueFor is like Issue, for a certificate that is valid between two times relative to now.
func (a *Authority) IssueFor(from, until time.Duration, names ...string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := certificate("modproxy test")
	template.NotBefore, template.NotAfter = time.Now().Add(from), time.Now().Add(until)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

// WriteFiles writes ca.pem, and cert.pem and key.pem for names, into dir.
func (a *Authority) WriteFiles(dir string, names ...string) error {
	cert, key, err := a.Issue(names...)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"ca.pem": a.PEM, "cert.pem": cert, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// ServerConfig returns a server configuration with a certificate for names.
func (a *Authority) ServerConfig(names ...string) (*tls.Config, error) {
	cert, key, err := a.Issue(names...)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}, nil
}
