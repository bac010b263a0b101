package main_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy/test/registrytest"
)

// comeAgain is the end of answers to requests that take long: clients must repeat the request.
const comeAgain = "; the request continues"

// unanswered reports whether a busy machine has not answered in time. If the request must fail, a failure counts as an answer.
func unanswered(text string, neg bool) bool {
	return strings.Contains(text, comeAgain) && !(neg && strings.Contains(text, "it last failed with"))
}

// question is a request of get, with what to do with its answer.
type question struct {
	method, url string
	body        string
	header      http.Header
	times       int
	take        int64          // bytes of the body before the client goes away; 0: all
	output      string         // file for the body
	until       *regexp.Regexp // repeat the request until the answer matches
	variable    string         // the variable to set
	part        *regexp.Regexp // its first group in the output is the value
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	q := question{method: "GET", header: http.Header{}, times: 1}
	slow, once := len(args) > 0 && args[0] == "-slow", len(args) > 0 && args[0] == "-once"
	if slow || once {
		args = args[1:]
	}
	for ; len(args) > 1 && strings.HasPrefix(args[0], "-"); args = args[2:] {
		var err error
		switch args[0] {
		case "-H":
			name, value, _ := strings.Cut(args[1], ":")
			q.header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		case "-X":
			q.method = args[1]
		case "-o":
			q.output = args[1]
		case "-d":
			q.body = args[1]
		case "-sign": // signs the body before it, as GitHub does
			mac := hmac.New(sha256.New, []byte(args[1]))
			mac.Write([]byte(q.body))
			q.header.Set("X-Hub-Signature-256", fmt.Sprintf("sha256=%x", mac.Sum(nil)))
		case "-n":
			q.times, err = strconv.Atoi(args[1])
		case "-take":
			q.take, err = strconv.ParseInt(args[1], 10, 64)
		case "-until":
			q.until, err = regexp.Compile("(?s)^" + args[1])
		case "-e":
			var part string
			q.variable, part, _ = strings.Cut(args[1], "=")
			q.part, err = regexp.Compile("(?m)" + part)
		default:
			err = fmt.Errorf("get: no flag %q", args[0])
		}
		ts.Check(err)
	}
	w := worldOf(ts)
	switch {
	case len(args) == 2 && args[1] == "&":
		q.url, w.read = args[0], make(chan struct{})
		w.asked = q.askBeside(w.read)
		if !slow {
			close(w.read)
		}
		return
	case len(args) != 1 || slow:
		ts.Fatalf("usage: get [-slow|-once] [-X METHOD] [-d BODY] [-sign SECRET] [-n TIMES] [-H 'NAME: VALUE'] [-o FILE] [-e VARIABLE=REGEXP] [-take N] [-until REGEXP] URL [&], or get -wait")
	case args[0] == "-wait":
		select {
		case <-w.read:
		default:
			close(w.read)
		}
		a := <-w.asked
		fmt.Fprint(ts.Stdout(), a.text)
		check(ts, neg, a.err)
		return
	}
	q.url = args[0]
	now := make(chan struct{})
	close(now)
	ask := func() (string, []byte, error) { return q.ask(context.Background(), now) }
	text, body, err := ask()
	end := time.Now().Add(patience)
	for !once && unanswered(text, neg) && time.Now().Before(end) { // a busy machine may not answer in time
		time.Sleep(time.Second)
		text, body, err = ask()
	}
	for q.until != nil && !q.until.MatchString(text) {
		if time.Now().After(end) {
			ts.Fatalf("%s still answers %s", q.url, text)
		}
		time.Sleep(50 * time.Millisecond)
		text, body, err = ask()
	}
	if q.until != nil {
		err = nil
	}
	fmt.Fprint(ts.Stdout(), text)
	if q.output != "" && err == nil {
		ts.Check(os.WriteFile(ts.MkAbs(q.output), body, 0o600))
	}
	if q.part != nil {
		found := q.part.FindStringSubmatch(text)
		if len(found) != 2 {
			ts.Fatalf("no %s in %s", q.part, text)
		}
		ts.Setenv(q.variable, found[1])
	}
	check(ts, neg, err)
}

// ask sends the same requests at the same time and requires the same body from all. It returns the printed form of one answer, and its
// body. A status of 400 or more, and a body that is cut off, are errors. It reads no body before read is closed.
func (q *question) ask(ctx context.Context, read <-chan struct{}) (text string, body []byte, err error) {
	answers, bodies := make([]*http.Response, q.times), make([][]byte, q.times)
	var cut, whole atomic.Int32
	var group errgroup.Group
	for i := range q.times {
		group.Go(func() error {
			r, err := http.NewRequestWithContext(ctx, q.method, q.url, strings.NewReader(q.body))
			if err != nil {
				return err
			}
			r.Header, r.Host = q.header, q.header.Get("Host")
			if answers[i], err = send(r); err != nil {
				return err
			}
			defer answers[i].Body.Close()
			<-read
			from := io.Reader(answers[i].Body)
			if q.take > 0 {
				from = io.LimitReader(from, q.take)
			}
			switch bodies[i], err = io.ReadAll(from); {
			case err != nil:
				cut.Add(1)
			case answers[i].StatusCode < 400:
				whole.Add(1)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return "", nil, err
	}
	// If one answer asks the client to come again, print that one.
	shown := max(0, slices.IndexFunc(bodies, func(body []byte) bool { return bytes.Contains(body, []byte(comeAgain)) }))
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", answers[shown].Status)
	for _, name := range slices.Sorted(maps.Keys(answers[shown].Header)) {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(answers[shown].Header[name], ", "))
	}
	if q.output == "" {
		fmt.Fprintf(&b, "\n%s\n", bodies[shown])
	}
	if n := cut.Load(); n > 0 {
		fmt.Fprintf(&b, "cut off: %d of %d, whole: %d\n", n, q.times, whole.Load())
		return b.String(), nil, fmt.Errorf("GET %s: the body is cut off", q.url)
	}
	for i := range q.times {
		if answers[i].StatusCode >= 400 {
			return b.String(), nil, fmt.Errorf("GET %s: %s %s", q.url, answers[i].Status, bytes.TrimSpace(bodies[i]))
		}
		if !bytes.Equal(bodies[i], bodies[0]) {
			return b.String(), nil, fmt.Errorf("GET %s: answers with different bodies", q.url)
		}
	}
	return b.String(), bodies[0], nil
}

// answered is the result of a question.
type answered struct {
	text string
	err  error
}

// askBeside asks in the background. It returns when the requests are sent. The channel delivers the result.
func (q *question) askBeside(read <-chan struct{}) <-chan answered {
	var unsent atomic.Int32
	unsent.Store(int32(q.times))
	sent, done := make(chan struct{}), make(chan answered, 1)
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		if unsent.Add(-1) == 0 {
			close(sent)
		}
	}}
	go func() {
		text, _, err := q.ask(httptrace.WithClientTrace(context.Background(), trace), read)
		done <- answered{text, err}
	}()
	select {
	case <-sent:
	case a := <-done:
		done <- a
	}
	return done
}

// send sends one request. It follows no redirect and trusts the test authority.
func send(r *http.Request) (*http.Response, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(registrytest.CA().PEM)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableCompression: true, DisableKeepAlives: true}
	return transport.RoundTrip(r)
}
