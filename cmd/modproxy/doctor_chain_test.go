package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"time"
)

// chain returns the certificates from that of a name to its intermediate, in PEM, and the key. The patient trusts their authority.
func (p *patient) chain(name string) (chain [][]byte, key []byte) {
	root, rootKey := p.certificate("doctor root", nil, nil)
	middle, middleKey := p.certificate("doctor intermediate", root, rootKey)
	leaf, leafKey := p.certificate(name, middle, middleKey)
	p.env["SSL_CERT_FILE"] = p.write("root.pem", string(inPEM("CERTIFICATE", root.Raw)))
	return [][]byte{inPEM("CERTIFICATE", leaf.Raw), inPEM("CERTIFICATE", middle.Raw)}, p.keyPEM(leafKey)
}

// selfSigned returns a certificate for an address that no authority has issued, and its key.
func (p *patient) selfSigned(address string) (cert, key []byte) {
	c, k := p.certificate(address, nil, nil)
	return inPEM("CERTIFICATE", c.Raw), p.keyPEM(k)
}

// certificate makes a certificate: of an authority, or for an IP address. Without an issuer it signs itself.
func (p *patient) certificate(name string, issuer *x509.Certificate, issuerKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p.must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(720 * time.Hour),
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses, template.ExtKeyUsage = []net.IP{ip}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	} else {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	}
	if issuer == nil {
		issuer, issuerKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, issuerKey)
	p.must(err)
	cert, err := x509.ParseCertificate(der)
	p.must(err)
	return cert, key
}

func (p *patient) keyPEM(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	p.must(err)
	return inPEM("PRIVATE KEY", der)
}

func inPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// serveChain starts an HTTPS server with the first certificates of a chain, and returns its URL.
func (p *patient) serveChain(length int) string {
	chain, key := p.chain("127.0.0.1")
	var pem []byte
	for _, cert := range chain[:length] {
		pem = append(pem, cert...)
	}
	return p.serveTLS(pem, key, http.NotFound)
}

// serveTLS starts an HTTPS server with a certificate, and returns its URL.
func (p *patient) serveTLS(cert, key []byte, serve http.HandlerFunc) string {
	pair, err := tls.X509KeyPair(cert, key)
	p.must(err)
	s := httptest.NewUnstartedServer(serve)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	p.Cleanup(s.Close)
	return s.URL
}
