package egress_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/egress"
)

func TestSessionHoldsToThePolicy(t *testing.T) {
	secret := canary(t)
	s := serve(t, "https", "127.0.0.1", hello)
	plain := serve(t, "http", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" || r.Header.Get("X-Forwarded-For") != "" {
			t.Errorf("the session adds to the header: %v", r.Header)
		}
		if r.URL.Path == "/canary" {
			http.Redirect(w, r, secret.at("https", "evil.test", "/"), http.StatusFound)
			return
		}
		b, _ := io.ReadAll(r.Body)
		w.Write(append([]byte("hello"), b...))
	})
	c := client(t, up())
	for _, tt := range []struct {
		url     string
		refused bool
	}{
		{s.at("https", "up.test", "/"), false},
		{plain.at("http", "up.test", "/"), false},
		{plain.at("http", "up.test", "/canary"), true},
		{plain.at("http", "two.test", "/"), true},
		{secret.at("https", "evil.test", "/"), true},
		{secret.at("https", "127.0.0.1", "/"), true},
		{secret.at("https", "[::1]", "/"), true},
		{secret.at("http", "127.0.0.1", "/"), true},
		{"https://169.254.169.254/", true},
		{"https://100.100.100.200/", true},
	} {
		session := open(t, c, 1<<20)
		resp, err := through(t, session).Get(tt.url)
		if err == nil && resp.StatusCode == http.StatusForbidden {
			err = errors.New("forbidden")
		}
		if (err != nil) != tt.refused || errors.Is(session.Refused(), egress.ErrRefused) != tt.refused {
			t.Errorf("%s: got %v, refused: %v", tt.url, err, session.Refused())
		}
		if err == nil && read(t, resp) != "hello" {
			t.Errorf("%s: got another body", tt.url)
		}
		if !tt.refused && session.Received() == 0 {
			t.Errorf("%s: nothing was counted", tt.url)
		}
		session.Close()
	}
	session := open(t, c, 1<<20)
	defer session.Close()
	resp, err := through(t, session).Post(plain.at("http", "up.test", "/"), "text/plain", strings.NewReader(", you"))
	if err != nil || read(t, resp) != "hello, you" {
		t.Errorf("post: %v", err)
	}
}

func TestSessionIsForItsCredentialOnly(t *testing.T) {
	s := serve(t, "https", "127.0.0.1", hello)
	c := client(t, up())
	session, closed := open(t, c, 1000), open(t, c, 1000)
	closed.Close()
	u, err := url.Parse(session.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []*url.Userinfo{nil, url.User(u.User.Username()), url.UserPassword(u.User.Username(), "x"),
		url.UserPassword("", "")} {
		other := *u
		other.User = user
		if _, err := throughURL(t, other.String()).Get(s.at("https", "up.test", "/")); err == nil {
			t.Errorf("%v gets through", user)
		}
	}
	if _, err := through(t, closed).Get(s.at("https", "up.test", "/")); err == nil {
		t.Error("a closed session gets through")
	}
	if s.conns.Load() != 0 || session.Refused() != nil {
		t.Errorf("%d connections, %v", s.conns.Load(), session.Refused())
	}
}

func TestSessionLeadsNotToItself(t *testing.T) {
	c := client(t, egress.Config{Allow: []string{"127.0.0.0/8"}})
	session := open(t, c, 1000)
	u, _ := url.Parse(session.URL())
	for _, scheme := range []string{"http", "https"} {
		resp, err := through(t, session).Get(scheme + "://" + u.Host + "/")
		if err == nil && resp.StatusCode != http.StatusForbidden || !errors.Is(session.Refused(), egress.ErrRefused) {
			t.Errorf("%s: got %v, refused: %v", scheme, err, session.Refused())
		}
	}
}

func TestSessionsAreBounded(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 1<<20)
	send := func(w http.ResponseWriter, _ *http.Request) { w.Write(big) }
	s, plain := serve(t, "https", "127.0.0.1", send), serve(t, "http", "127.0.0.1", send)
	c := client(t, up())
	for _, u := range []string{s.at("https", "up.test", "/"), plain.at("http", "up.test", "/")} {
		for max, enough := range map[int64]bool{100 << 10: false, 2 << 20: true} {
			session := open(t, c, max)
			resp, err := through(t, session).Get(u)
			var got int
			if err == nil {
				var b []byte
				b, err = io.ReadAll(resp.Body)
				got = len(b)
				resp.Body.Close()
			}
			if (err == nil) != enough || errors.Is(session.Refused(), egress.ErrTooLarge) == enough || int64(got) > max {
				t.Errorf("%s within %d: got %d bytes, %v, refused: %v", u, max, got, err, session.Refused())
			}
			session.Close()
		}
	}
}

func TestIdleAndClosedSessionsAreCut(t *testing.T) {
	arrived := make(chan struct{}, 1)
	hanging := serve(t, "https", "127.0.0.1", func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		hang(r)
	})
	there := false
	for idle := 50 * time.Millisecond; !there; idle *= 2 { // a busy machine may need longer to connect
		hasty := client(t, up())
		hasty.SetTimes(time.Minute, time.Minute, idle)
		session := open(t, hasty, 1<<20)
		_, err := through(t, session).Get(hanging.at("https", "up.test", "/"))
		select {
		case <-arrived:
			there = true
		default:
			continue
		}
		if err == nil || !errors.Is(session.Refused(), egress.ErrTooSlow) {
			t.Errorf("idle: got %v, refused: %v", err, session.Refused())
		}
	}

	session := open(t, client(t, up()), 1<<20)
	done := make(chan error, 1)
	go func() {
		_, err := through(t, session).Get(hanging.at("https", "up.test", "/"))
		done <- err
	}()
	select {
	case <-arrived:
	case err := <-done:
		t.Fatalf("ended before it was cut: %v, refused: %v", err, session.Refused())
	}
	session.Close()
	if err := <-done; err == nil || session.Refused() != nil {
		t.Errorf("closed: got %v, refused: %v", err, session.Refused())
	}
}

func TestSessionThroughTheProxyOfTheEnvironment(t *testing.T) {
	s := serve(t, "https", "127.0.0.1", hello)
	for _, scheme := range []string{"http", "https"} {
		p := newSite(t, scheme)
		t.Setenv("HTTPS_PROXY", scheme+"://u:SECRET@"+p.address)
		c := client(t, egress.Config{ProxyNames: true, Ports: []int{s.port}, Resolver: names{"evil.test": {"127.0.0.1"}}})
		session := open(t, c, 1<<20)
		resp, err := through(t, session).Get(s.at("https", "unknown.test", "/"))
		if err != nil {
			t.Fatal(err, session.Refused())
		}
		if read(t, resp) != "hello" || !strings.HasPrefix(p.took(), "CONNECT unknown.test:") {
			t.Error("not through the proxy")
		}
		if _, err := through(t, session).Get(s.at("https", "evil.test", "/")); err == nil ||
			!errors.Is(session.Refused(), egress.ErrRefused) || p.took() != "" {
			t.Errorf("got %v, refused: %v", err, session.Refused())
		}
		session.Close()
	}
}

func TestSessionRefusesWhatIsNoTarget(t *testing.T) {
	session := open(t, client(t, up()), 1000)
	u, _ := url.Parse(session.URL())
	for _, line := range []string{"CONNECT up.test HTTP/1.1", "CONNECT 127.1:443 HTTP/1.1", "GET /x HTTP/1.1",
		"GET https://up.test/ HTTP/1.1", "GET ftp://up.test/ HTTP/1.1"} {
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Header: http.Header{}}
		password, _ := u.User.Password()
		r.SetBasicAuth(u.User.Username(), password)
		io.WriteString(conn,
			line+"\r\nHost: up.test\r\nConnection: close\r\nProxy-Authorization: "+r.Header.Get("Authorization")+"\r\n\r\n")
		answer, _ := io.ReadAll(io.LimitReader(conn, 1000))
		conn.Close()
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 403 ")) {
			t.Errorf("%s: got %.40q", line, answer)
		}
	}
}

// TestSessionEndsWithTheServer: a connection that ends without a TLS close message is closed at once, not after the idle
// timeout.
func TestSessionEndsWithTheServer(t *testing.T) {
	s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nxxxxx")
		conn.(*tls.Conn).NetConn().Close()
	})
	c := client(t, up())
	c.SetTimes(time.Minute, time.Minute, time.Hour)
	session := open(t, c, 1<<20)
	defer session.Close()
	resp, err := through(t, session).Get(s.at("https", "up.test", "/"))
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		t.Error("half a body is taken for whole")
	}
}
