package webhook

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/protocol"
)

const pushed = `{"repository": {"clone_url": "https://git.example.com/acme/vpc.git"}}`

// looks records the repositories that were looked at.
type looks chan string

func (l looks) look(_ context.Context, repository string) { l <- repository }

// newServer serves a Receiver with a webhook "known" for each way of signing, as package proxy does.
func newServer(t *testing.T, secrets map[string]string) (*httptest.Server, looks) {
	t.Helper()
	known, seen := map[string]egress.Secret{}, make(looks, 100)
	for id, s := range secrets {
		known[id] = egress.NewSecret(s)
	}
	r := New(known, seen.look)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); r.Run(ctx) }()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if err := r.Handle(w, q); err != nil {
			status := http.StatusServiceUnavailable
			if own, ok := errors.AsType[*protocol.Error](err); ok {
				status = own.Status
			} else if !errors.As(err, new(*modproxy.RetryLater)) {
				t.Errorf("an error without a status: %v", err)
			}
			http.Error(w, err.Error(), status)
		}
	}))
	t.Cleanup(func() { server.Close(); stop(); <-stopped })
	return server, seen
}

// send sends an event to the webhook with this ID. It returns the status and the body of the answer.
func send(t *testing.T, server *httptest.Server, id string, header []string, body io.Reader) (int, string) {
	t.Helper()
	q, err := http.NewRequest("POST", server.URL+Path+id, body)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	if q.Header = headerOf(header); q.Header.Get("Content-Type") == "" {
		q.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(text)
}

// unsized hides the length of a body, which is then sent in chunks.
type unsized struct{ io.Reader }

// TestForges sends the events of all forges, signed in all ways.
func TestForges(t *testing.T) {
	server, seen := newServer(t, map[string]string{"a": secret, "b": signingToken})
	for name, sample := range samples {
		for sender, s := range sendersOf(sample.event) {
			id := "a"
			if s.secret == signingToken {
				id = "b"
			}
			status, text := send(t, server, id, s.header, unsized{strings.NewReader(sample.event)})
			if status != http.StatusAccepted || (len(sample.names) == 0) != strings.Contains(text, "names no repository") {
				t.Errorf("%s by %s: %d %s", name, sender, status, text)
			}
		}
	}
	want := map[string]bool{}
	for _, sample := range samples {
		for _, name := range sample.names {
			want[name] = true
		}
	}
	for got := map[string]bool{}; len(got) < len(want); {
		name := <-seen
		if got[name] = true; !want[name] {
			t.Errorf("looked at %s", name)
		}
	}
}

// TestRefused: requests without a valid event and signature have no effect, and do not tell whether the webhook exists.
func TestRefused(t *testing.T) {
	server, seen := newServer(t, map[string]string{"known": secret})
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, pushed)
	z.Close()
	large := `{"x": "` + strings.Repeat("x", maxBody) + `"}`
	hub := func(body string) []string { return []string{"X-Hub-Signature-256", "sha256=" + hexSum(secret, body)} }
	for name, c := range map[string]struct {
		header []string
		body   string
		status int
	}{
		"unsigned":         {nil, pushed, 403},
		"forged":           {[]string{"X-Hub-Signature-256", "sha256=" + hexSum("a guess", pushed)}, pushed, 403},
		"of another event": {hub(pushed + " "), pushed, 403},
		"truncated":        {hub(pushed), pushed[:20], 403},
		"empty":            {nil, "", 403},
		"a guessed token":  {[]string{"X-Gitlab-Token", "a guess"}, pushed, 403},
		"a form":           {append(hub(pushed), "Content-Type", "application/x-www-form-urlencoded"), pushed, 415},
		"gzip":             {append(hub(zipped.String()), "Content-Encoding", "gzip"), zipped.String(), 415},
		"gzip, unsaid":     {hub(pushed), zipped.String(), 403},
		"large":            {hub(large), large, 413},
	} {
		for _, chunked := range []bool{false, true} {
			answers := map[string]bool{}
			for _, id := range []string{"known", "unknown", "", "known/x", "known%2fx"} {
				var body io.Reader = strings.NewReader(c.body)
				if chunked {
					body = unsized{body}
				}
				status, text := send(t, server, id, c.header, body)
				if status != c.status {
					t.Errorf("%s to %q: %d %s; want %d", name, id, status, text, c.status)
				}
				answers[text] = true
			}
			if len(answers) != 1 {
				t.Errorf("%s: the answer depends on the ID: %q", name, slices.Collect(maps.Keys(answers)))
			}
		}
	}
	if status, text := send(t, server, "known", hub("{"), strings.NewReader("{")); status != 400 {
		t.Errorf("signed, not JSON: %d %s", status, text)
	}
	if status, _ := send(t, server, "unknown", hub(pushed), strings.NewReader(pushed)); status != 403 {
		t.Errorf("signed for another webhook: %d", status)
	}

	// A client that leaves in the middle of an event.
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST "+Path+"known HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"+pushed)
	conn.(*net.TCPConn).CloseWrite()
	if answer, _ := io.ReadAll(conn); !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
		t.Errorf("cut off: %s", answer)
	}

	// The only look is that of the event behind all of these.
	send(t, server, "known", hub(pushed), strings.NewReader(pushed))
	if got := <-seen; got != "git.example.com/acme/vpc" || len(seen) > 0 {
		t.Errorf("looked at %q, and %d more", got, len(seen))
	}
}

// handle passes an event to r without a network.
func handle(t *testing.T, r *Receiver, body string) error {
	q := httptest.NewRequestWithContext(t.Context(), "POST", Path+"known", strings.NewReader(body))
	q.Header = headerOf([]string{"Content-Type", "application/json", "X-Gitlab-Token", secret})
	return r.Handle(httptest.NewRecorder(), q)
}

// TestFlood: any number of webhooks leads to one look at a time, at most once a second, and to one that begins after the last webhook.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, all atomic.Int64
		var last time.Time
		r := New(map[string]egress.Secret{"known": egress.NewSecret(secret)}, func(context.Context, string) {
			if running.Add(1) > 1 {
				t.Error("two looks at the same time")
			}
			all.Add(1)
			last = time.Now()
			time.Sleep(100 * time.Millisecond)
			running.Add(-1)
		})
		ctx, stop := context.WithCancel(t.Context())
		go r.Run(ctx)
		var flood sync.WaitGroup
		for range 1000 {
			flood.Go(func() {
				if err := handle(t, r, pushed); err != nil {
					t.Error(err)
				}
			})
		}
		flood.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := all.Load(); n < 1 || n > 2 {
			t.Errorf("1,000 webhooks at once: %d looks", n)
		}
		if len(r.due) > 0 {
			t.Errorf("waiting: %v", r.due)
		}
		all.Store(0)
		var sent time.Time
		for range 1000 { // over ten seconds
			if sent = time.Now(); handle(t, r, pushed) != nil {
				t.Error("refused")
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := all.Load(); n < 5 || n > 11 || last.Before(sent) {
			t.Errorf("1,000 webhooks in ten seconds: %d looks, the last one %v after the last webhook", n, last.Sub(sent))
		}
		stop()
	})
}

// TestFloodOfClients sends 1,000 webhooks at once over HTTP. Each is accepted, or refused because of the others.
func TestFloodOfClients(t *testing.T) {
	server, seen := newServer(t, map[string]string{"known": secret})
	began := time.Now()
	var accepted atomic.Int64
	var flood sync.WaitGroup
	for range 1000 {
		flood.Go(func() {
			switch status, text := send(t, server, "known", []string{"X-Gitlab-Token", secret}, strings.NewReader(pushed)); status {
			case http.StatusAccepted:
				accepted.Add(1)
			case http.StatusServiceUnavailable:
			default:
				t.Errorf("%d %s", status, text)
			}
		})
	}
	flood.Wait()
	n := len(seen)
	if most := int(time.Since(began)/pause) + 1; accepted.Load() == 0 || n > most {
		t.Errorf("%d accepted, %d looks; want at most %d", accepted.Load(), n, most)
	}
	if accepted.Load() > 0 {
		<-seen
	}
}

// TestHosts: a host that does not answer holds back only its own repositories, and too many of them are refused.
func TestHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var other atomic.Int64
		r := New(map[string]egress.Secret{"known": egress.NewSecret(secret)}, func(ctx context.Context, repository string) {
			if strings.HasPrefix(repository, "down/") {
				<-ctx.Done()
				return
			}
			other.Add(1)
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		push := func(host string, i int) error {
			return handle(t, r, `{"repository": {"clone_url": "https://`+host+`/a/`+strings.Repeat("x", i+1)+`"}}`)
		}
		for i := range maxWaiting - 1 {
			if err := push("down", i); err != nil {
				t.Fatal(err)
			}
		}
		if err := push("up", 0); err != nil {
			t.Fatal(err)
		}
		if err := push("up", 1); !errors.As(err, new(*modproxy.RetryLater)) {
			t.Errorf("one too many: %v", err)
		}
		synctest.Wait()
		if other.Load() != 1 {
			t.Error("a host waits for another one")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := push("up", 1); err != nil {
			t.Error(err)
		}
		stop()
		<-ended
	})
}

// TestSlowBodies: clients that send nothing do not keep others from sending events.
func TestSlowBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(map[string]egress.Secret{"known": egress.NewSecret(secret)}, func(context.Context, string) {})
		ctx, stop := context.WithCancel(modproxy.WithClient(t.Context(), modproxy.Client{Name: "slow"}))
		var slow sync.WaitGroup
		for range 100 {
			slow.Go(func() {
				body, end := io.Pipe()
				defer context.AfterFunc(ctx, func() { end.CloseWithError(io.ErrUnexpectedEOF) })()
				q := httptest.NewRequestWithContext(ctx, "POST", Path+"known", body)
				q.Header.Set("Content-Type", "application/json")
				if r.Handle(httptest.NewRecorder(), q) == nil {
					t.Error("accepted")
				}
			})
		}
		synctest.Wait()
		if err := handle(t, r, pushed); err != nil {
			t.Error(err)
		}
		stop()
		slow.Wait()
	})
}
