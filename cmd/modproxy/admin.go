package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/proxy"
)

// The verbs that look into the data directory, or change it, ask the API: paths
// below /-/api/ that proxy.Mount makes, and that answer who may operate the proxy.
// Who asks need not care whether modproxy serves. If it does, serverName says where
// and lets them in; if not, they claim the directory and answer themselves, by the
// same mounts, until they are done.
//
//	err := withAPI(ctx, c, openLedger, func(a *api) error {
//		return a.ask(ctx, "POST", "/-/api/ledger/accept", accept, &record)
//	})
//
// What a verb says is in a JSON object or in the query, what it is told is a JSON
// object, or a stream where that would be large.

// open makes what answers while modproxy does not serve; done releases it.
type open func(c *config.Config) (mounts []proxy.Mount, done func() error, err error)

// withAPI calls f with the API of the modproxy that has the data directory of c.
func withAPI(ctx context.Context, c *config.Config, open open, f func(*api) error) (err error) {
	if err := haveData(c.Data); err != nil {
		return err
	}
	for end := time.Now().Add(claimWait); ; {
		own, err := claimData(c.Data)
		if err == nil {
			return answerInside(c, own, open, f)
		}
		if !errors.Is(err, errClaimed) {
			return err
		}
		if s, err := readServer(c.Data); err == nil {
			return f(newAPI(s))
		}
		if time.Now().After(end) {
			return hint.With(err, "it is starting, or another verb is at work: try again")
		}
		select {
		case <-time.After(claimPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answerInside calls f with the API of this process, which nobody else can reach.
func answerInside(c *config.Config, own *claim, open open, f func(*api) error) (err error) {
	defer func() { err = errors.Join(err, own.close()) }()
	mounts, done, err := open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	inside := newInside()
	api := &http.Server{
		Handler:           proxy.New(proxy.Config{Mounts: mounts, Operator: own.admits}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	go api.Serve(inside) // ends with Close
	defer api.Close()
	a := newAPI(server{URL: "http://inside", Token: own.token})
	a.client.Transport = &http.Transport{DialContext: inside.dial, DisableKeepAlives: true}
	return f(a)
}

// api asks the API of one modproxy.
type api struct {
	base, token string
	client      *http.Client
}

func newAPI(s server) *api {
	return &api{strings.TrimRight(s.URL, "/"), s.Token, &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{ // and no HTTP proxy
			DisableKeepAlives: true,
			// What is asked does not leave this machine, and nobody else listens
			// there: the process that wrote the address has the directory's lock. Its
			// certificate seldom names the address.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
	}}
}

// apiError is what the API says when it does not do something.
type apiError struct {
	Status int
	text   string
}

func (e *apiError) Error() string { return e.text }

// ask asks with in as JSON, or as it is if it is an [io.Reader], unless it is nil,
// and reads the answer into out, unless that is nil. Its error is an [apiError] if it was told so.
func (a *api) ask(ctx context.Context, method, path string, in, out any) error {
	body, ok := in.(io.Reader)
	if in != nil && !ok {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	answer, err := a.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(answer).Decode(out); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// send asks with body, which may be nil, and is what is answered. The caller
// closes it.
func (a *api) send(ctx context.Context, method, path string, body io.Reader) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, a.base+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	answer, err := a.client.Do(r)
	if err != nil {
		return nil, hint.With(fmt.Errorf("the modproxy that serves: %w", err), "it may have ended just now: try again")
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // what there is
	var said struct{ Errors []string }
	if json.Unmarshal(text, &said) != nil || len(said.Errors) == 0 {
		said.Errors = []string{"the modproxy that serves answers " + answer.Status}
	}
	return nil, &apiError{answer.StatusCode, said.Errors[0]}
}

// maxAPIRequest bounds a JSON object that the API is sent, in bytes.
const maxAPIRequest = 64 << 10

// readJSON reads the JSON object that the API was sent.
func readJSON(w http.ResponseWriter, r *http.Request, in any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAPIRequest))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return fmt.Errorf("%w: request: %w", modproxy.ErrInvalid, err)
	}
	return nil
}

// writeJSON answers out, which becomes JSON.
func writeJSON(w http.ResponseWriter, out any) error {
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(text, '\n')) // a client that is gone is no concern
	return nil
}

// inside is a listener that only this process can connect to.
type inside struct {
	conns chan net.Conn
	done  chan struct{}
}

func newInside() *inside { return &inside{make(chan net.Conn), make(chan struct{})} }

func (l *inside) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *inside) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]. It is called once.
func (l *inside) Close() error { close(l.done); return nil }

// Addr implements [net.Listener].
func (l *inside) Addr() net.Addr { return &net.UnixAddr{Name: "inside", Net: "pipe"} }
