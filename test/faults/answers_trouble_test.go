//go:build linux

package faults_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"

	"golang.org/x/net/dns/dnsmessage"
)

// trouble is a registry that works until its trouble is turned on.
type trouble struct {
	name   string
	accept func(net.Conn)                       // replaces serving the connection
	cert   func(*authority, string) certificate // replaces a valid certificate
	serve  http.HandlerFunc                     // replaces the answer
	code   dnsmessage.RCode                     // replaces an address

	on        atomic.Bool
	connected atomic.Int64
	server    *httptest.Server
}

func troubles() []*trouble {
	return []*trouble{
		{name: "reset", accept: func(c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() }},
		{name: "closed", accept: func(c net.Conn) { c.Close() }},
		{name: "blackhole", accept: func(net.Conn) {}},
		{name: "nxdomain", code: dnsmessage.RCodeNameError},
		{name: "servfail", code: dnsmessage.RCodeServerFailure},
		{name: "refused", code: dnsmessage.RCodeRefused},
		{name: "silent", code: rig.Silence},
		{name: "expired", cert: func(ca *authority, name string) certificate { return ca.issue(name, -time.Hour) }},
		{name: "unknown", cert: func(_ *authority, name string) certificate { return newAuthority().issue(name, time.Hour) }},
		{name: "othername", cert: func(ca *authority, _ string) certificate { return ca.issue("other.test", time.Hour) }},
		{name: "status503", serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }},
		{name: "html", serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<html>maintenance</html>")
		}},
	}
}

func (x *trouble) host() string { return x.name + ".test" }

// path is a path of the rig's registry at this one.
func (x *trouble) path(path string) string {
	return strings.Replace(path, "/up.example.com", "/"+x.host(), 1)
}

// certificate is a certificate with its key.
type certificate = tls.Certificate

// authority issues certificates whose validity began two hours ago.
type authority struct {
	certificate
	leaf *x509.Certificate
}

func newAuthority() *authority {
	a := &authority{}
	a.certificate = a.issue("", time.Hour)
	return a
}

// issue makes a certificate for a name. The end of its validity is relative to now. Without a name it is the authority's own.
func (a *authority) issue(name string, end time.Duration) certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "faults"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(end),
	}
	parent, signer := a.leaf, a.PrivateKey
	if name == "" {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = template, key
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		panic(err)
	}
	if name == "" {
		if a.leaf, err = x509.ParseCertificate(der); err != nil {
			panic(err)
		}
	}
	return certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Accept implements [net.Listener] for trouble's server.
func (l troubledListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.x.connected.Add(1)
		if !l.x.on.Load() || l.x.accept == nil {
			return conn, nil
		}
		l.x.accept(conn)
	}
}

type troubledListener struct {
	net.Listener
	x *trouble
}

func (x *trouble) start(t *testing.T, ca *authority) {
	t.Helper()
	x.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if x.on.Load() && x.serve != nil {
			x.serve(w, r)
			return
		}
		answer(w, r)
	}))
	x.server.Listener = troubledListener{x.server.Listener, x}
	good := ca.issue(x.host(), time.Hour)
	bad := good
	if x.cert != nil {
		bad = x.cert(ca, x.host())
	}
	x.server.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if x.on.Load() {
			return &bad, nil
		}
		return &good, nil
	}}
	x.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	x.server.StartTLS()
	t.Cleanup(x.server.Close)
}

// turn turns the trouble on or off, also for existing connections.
func (x *trouble) turn(on bool) {
	x.on.Store(on)
	x.server.CloseClientConnections()
}

// newTroubledProxy returns a proxy of all registries with troubles.
func newTroubledProxy(t *testing.T) (*proxy, []*trouble, *atomic.Int64) {
	t.Helper()
	all, ca := troubles(), newAuthority()
	dns := serveNames(t, func(name string) dnsmessage.RCode {
		for _, x := range all {
			if x.host() == name && x.on.Load() {
				return x.code
			}
		}
		return dnsmessage.RCodeSuccess
	})
	var upstreams []string
	for _, x := range all {
		x.start(t, ca)
		port := x.server.Listener.Addr().(*net.TCPAddr).Port
		upstreams = append(upstreams, fmt.Sprintf("{host: %s, modules: 'https://%s:%d/v1/modules/'}", x.host(), x.host(), port))
	}
	t.Setenv("MODPROXY_UPSTREAMS", "["+strings.Join(upstreams, ", ")+"]")
	t.Setenv("MODPROXY_CACHE_FRESH", "1ms")
	t.Setenv("MODPROXY_CACHE_MISSING", "1s")
	r := newProxy(t, with{})
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.leaf.Raw})
	if err := os.WriteFile(r.path("ca.pem"), own, 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.ready()
	for _, x := range all {
		r.warm(x)
	}
	return r, all, dns
}

// warm stores a module of a registry.
func (r *proxy) warm(x *trouble) {
	r.t.Helper()
	for _, path := range []string{modulePath("kept") + "/versions", packagePath("kept", "1.0.0")} {
		if a := r.ask("GET", x.path(path)); a.Status != http.StatusOK || a.Err != nil {
			r.t.Fatalf("%s: %s: %v", x.name, path, a)
		}
	}
}

// keptServed fails the test unless the stored modules of a registry are served in time.
func (r *proxy) keptServed(x *trouble) {
	r.t.Helper()
	for range 2 {
		a := r.ask("GET", x.path(modulePath("kept")+"/versions"))
		if a.Status != http.StatusOK || rig.Late(a.Took, soonEnough) || !strings.Contains(string(a.Body), `"1.0.0"`) {
			r.t.Errorf("%s: versions: %v", x.name, a)
		}
		if a.Header.Get("Age") == "" || !strings.Contains(a.Header.Get("Cache-Status"), "detail=stale") {
			r.t.Errorf("%s: versions: Cache-Status %q, Age %q", x.name, a.Header.Get("Cache-Status"), a.Header.Get("Age"))
		}
		if a := r.ask("GET", x.path(modulePath("kept")+"/1.0.0/download")); a.Status != http.StatusNoContent || rig.Late(a.Took, soonEnough) {
			r.t.Errorf("%s: download: %v", x.name, a)
		}
		if a := r.ask("GET", x.path(packagePath("kept", "1.0.0"))); a.Status != http.StatusOK || a.Err != nil {
			r.t.Errorf("%s: package: %v", x.name, a)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// soonEnough is shorter than the ten seconds that clients wait.
const soonEnough = 9 * time.Second

// colds are paths of modules that are not stored.
var colds = []string{modulePath("cold") + "/versions", modulePath("cold") + "/1.0.0/download", modulePath("kept") + "/2.0.0/download"}

// coldRefused fails the test unless modproxy answers soon, with an error that is not "not found".
func (r *proxy) coldRefused(x *trouble) {
	r.t.Helper()
	var group sync.WaitGroup
	for _, path := range colds {
		group.Go(func() {
			a := r.ask("GET", x.path(path))
			bad := a.Status < 502 || a.Status > 504
			if a.Status == http.StatusFailedDependency { // the registry did answer, or another attempt is useless
				answered := strings.HasSuffix(path, "/download") && x.serve != nil
				lasts := x.cert != nil || x.code == dnsmessage.RCodeNameError
				bad = !answered && !lasts && !strings.Contains(a.Said(), "modproxy is offline")
			}
			if bad || rig.Late(a.Took, soonEnough) || a.Said() == "" {
				r.t.Errorf("%s: %s: %v", x.name, path, a)
			}
		})
	}
	group.Wait()
}

// When a registry cannot answer, for any reason, stored modules are served, with a mark if they may be stale. Requests for others fail
// soon and never with "not found". Afterwards everything works.
func TestUpstreamTrouble(t *testing.T) {
	r, all, _ := newTroubledProxy(t)
	var group sync.WaitGroup
	for _, x := range all {
		x.turn(true)
		group.Go(func() { r.keptServed(x) })
		group.Go(func() { r.coldRefused(x) })
	}
	group.Wait()
	for _, x := range all {
		x.turn(false)
	}
	for _, x := range all {
		for _, path := range colds[:2] {
			started := time.Now()
			a := r.ask("GET", x.path(path))
			for a.Status >= 400 && time.Since(started) < 2*time.Minute {
				time.Sleep(100 * time.Millisecond)
				a = r.ask("GET", x.path(path))
			}
			if a.Status >= 400 || a.Err != nil {
				t.Errorf("%s is well again: %v", x.name, a)
			}
		}
	}
	r.stop()
}

// Offline, stored modules are served and others are refused. No registry and no name server is requested.
func TestOfflineAsksNobody(t *testing.T) {
	r, all, dns := newTroubledProxy(t)
	r.stop()
	before := dns.Load()
	for _, x := range all {
		x.connected.Store(0)
	}
	if before == 0 {
		t.Error("no name was asked for before: the name server is not asked")
	}
	r.start("--offline")
	r.ready()
	for _, x := range all {
		r.keptServed(x)
		r.coldRefused(x)
		if a := r.ask("GET", x.path(packagePath("cold", "1.0.0"))); a.Status != http.StatusFailedDependency || !strings.Contains(a.Said(), "offline") {
			t.Errorf("%s: package: %v", x.name, a)
		}
	}
	r.stop()
	if asked := dns.Load(); asked != before {
		t.Errorf("%d questions to the name server", asked-before)
	}
	for _, x := range all {
		if n := x.connected.Load(); n > 0 {
			t.Errorf("%d connections to %s", n, x.name)
		}
	}
}
