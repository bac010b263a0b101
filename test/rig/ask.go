package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// An Answer is the answer of a server, read to its end. Err says why the answer is missing or incomplete.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Length int64 // Content-Length, -1 without one
	Took   time.Duration
	Err    error
}

// NewRequest returns a request with headers, given as alternating names and values.
func NewRequest(ctx context.Context, method, url string, headers ...string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	return r, nil
}

// Do sends a request and reads the answer to its end.
func Do(client *http.Client, r *http.Request) (a Answer) {
	started := time.Now()
	defer func() { a.Took = time.Since(started) }()
	response, err := client.Do(r)
	if err != nil {
		return Answer{Err: err}
	}
	defer response.Body.Close()
	a = Answer{Status: response.StatusCode, Header: response.Header, Length: response.ContentLength}
	a.Body, a.Err = io.ReadAll(response.Body)
	return a
}

// Get requests a URL.
func Get(ctx context.Context, url string, headers ...string) Answer {
	r, err := NewRequest(ctx, http.MethodGet, url, headers...)
	if err != nil {
		return Answer{Err: err}
	}
	return Do(http.DefaultClient, r)
}

// Said returns the error in an answer of modproxy, or "" if the answer has none.
func (a Answer) Said() string {
	var said struct{ Errors []string }
	if json.Unmarshal(a.Body, &said) != nil {
		return ""
	}
	return strings.Join(said.Errors, "; ")
}

func (a Answer) String() string {
	if said := a.Said(); said != "" || a.Err != nil {
		return fmt.Sprintf("%d %q %v after %v", a.Status, said, a.Err, a.Took)
	}
	return fmt.Sprintf("%d, %d bytes after %v", a.Status, len(a.Body), a.Took)
}
