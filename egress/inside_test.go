package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy/egress"
)

// failing is a resolver that fails.
type failing struct{ err error }

func (f failing) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, f.err
}

// operators returns the text of err for operators, or an empty string.
func operators(err error) string {
	if inside, ok := errors.AsType[interface {
		error
		Inside() string
	}](err); ok {
		return inside.Inside()
	}
	return ""
}

// TestErrorsDoNotNameTheResolver: error texts for clients do not name the resolver. Those for operators do.
func TestErrorsDoNotNameTheResolver(t *testing.T) {
	const server = "10.255.255.53:53"
	for name, one := range map[string]struct {
		err  *net.DNSError
		want string
	}{
		"absent": {&net.DNSError{Err: "no such host", Name: "up.test", Server: server, IsNotFound: true}, "lookup up.test: no such host"},
		"late": {&net.DNSError{Err: "read udp 10.1.2.3:4567->" + server + ": i/o timeout", Name: "up.test", Server: server, IsTimeout: true},
			"lookup up.test: i/o timeout"},
		"away": {&net.DNSError{Err: "dial udp " + server + ": connect: network is unreachable", Name: "up.test", Server: server},
			"lookup up.test: network is unreachable"},
		"other": {&net.DNSError{Err: "read udp 10.1.2.3:4567->10.255.255.54:53: read: connection refused", Name: "up.test", Server: server},
			"lookup up.test: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := up()
			cfg.Resolver = failing{one.err}
			c := client(t, cfg)
			_, err := c.Get(t.Context(), egress.Request{URL: "https://up.test/x"})
			_, resolved := c.Resolve(t.Context(), "up.test", 443)
			for what, err := range map[string]error{"get": err, "resolve": resolved} {
				if err == nil || !strings.HasSuffix(err.Error(), one.want) || strings.Contains(err.Error(), "10.") {
					t.Errorf("%s: got %v, want …%s", what, err, one.want)
				}
				if got := operators(err); got != one.err.Error() {
					t.Errorf("%s: operators read %q, want %q", what, got, one.err)
				}
				if !errors.Is(err, one.err) {
					t.Errorf("%s: %v does not wrap the error of the resolver", what, err)
				}
			}
			session := open(t, c, 1<<20)
			defer session.Close()
			if resp, err := through(t, session).Get("https://up.test/x"); err == nil {
				resp.Body.Close()
				t.Error("the session connects")
			}
			if err := session.Refused(); err == nil || strings.Contains(err.Error(), "10.") || operators(err) != one.err.Error() {
				t.Errorf("session: got %v, for operators %q", err, operators(err))
			}
		})
	}
}

// TestErrorsDoNotNameThisMachine: error texts for clients do not name this machine's address of a connection.
func TestErrorsDoNotNameThisMachine(t *testing.T) {
	received := make(chan struct{})
	s := serve(t, "http", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.URL.Path == "/body" {
			w.Write([]byte("begin"))
			if err := control.Flush(); err != nil {
				panic(err)
			}
			<-received
		}
		conn, _, err := control.Hijack()
		if err != nil {
			panic(err)
		}
		conn.(*net.TCPConn).SetLinger(0) // makes Close send a reset
		conn.Close()
	})
	c := client(t, up())
	_, early := c.Get(t.Context(), egress.Request{URL: s.at("http", "up.test", "/")})
	resp, err := c.Get(t.Context(), egress.Request{URL: s.at("http", "up.test", "/body"), MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	close(received)
	_, late := io.ReadAll(resp.Body)
	for what, err := range map[string]error{"header": early, "body": late} {
		if !errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "->") {
			t.Errorf("%s: got %v", what, err)
		}
		if got := operators(err); !strings.Contains(got, "->") || strings.Count(err.Error(), "tcp 127.0.0.1:") != 1 {
			t.Errorf("%s: operators read %q of %v", what, got, err)
		}
	}
}
