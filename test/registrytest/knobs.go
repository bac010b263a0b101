package registrytest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a request to an upstream.
type Kind string

// The kinds of requests.
const (
	Discovery        Kind = "discovery"         // /.well-known/terraform.json
	Versions         Kind = "versions"          // …/versions of a module
	Download         Kind = "download"          // …/{version}/download of a module
	Dates            Kind = "dates"             // below /v2/modules/ or /v2/providers/, or a document about a version
	Catalog          Kind = "catalog"           // everything else below /v1/modules/, /v2/ or /registry/docs/: lists, search, …
	ProviderVersions Kind = "provider-versions" // …/versions of a provider
	ProviderDownload Kind = "provider-download" // …/{version}/download/{os}/{arch} of a provider
	Sums             Kind = "sums"              // the checksums of a version of a provider
	Signature        Kind = "signature"         // the signature of the checksums
	Zip              Kind = "zip"               // the package of a provider for one platform
	Git              Kind = "git"               // a git repository
	OCI              Kind = "oci"               // the API of an OCI registry
	Archive          Kind = "archive"           // an archive, or a file below /files/
	Get              Kind = "get"               // a request with ?terraform-get=1
	Other            Kind = "other"             // everything else
	All              Kind = "all"               // every request
)

// Knobs change the answers of an [Upstream]. The zero value changes nothing.
type Knobs struct {
	Status     int           // answer with this status and a short text
	RetryAfter string        // the header Retry-After beside Status
	Latency    time.Duration // delay before the answer
	Bandwidth  int           // bytes of body a second; 0 for no limit
	Truncate   int           // break the connection after this many bytes of body; 0 for never
	Hold       bool          // do not answer before the knobs of this kind change
	Stall      int           // send this many bytes of body, and the rest after the knobs change; 0 for no stall
	Redirects  int           // number of redirects before the answer
	Redirect   string        // redirect to the same path at this URL, such as another upstream's
	Type       string        // Content-Type in place of the true one
	Token      string        // answer 401 to requests without "Authorization: Bearer Token"
	Whole      bool          // ignore the header Range
	Times      int           // apply the knobs to this many requests only; 0 for all
}

// Set sets one knob. The name is in lower case, as in scripts.
func (k *Knobs) Set(name, value string) error {
	number := func(to *int) (err error) {
		*to, err = strconv.Atoi(value)
		return err
	}
	var err error
	switch name {
	case "status":
		err = number(&k.Status)
	case "retry-after":
		k.RetryAfter = value
	case "latency":
		k.Latency, err = time.ParseDuration(value)
	case "bandwidth":
		err = number(&k.Bandwidth)
	case "truncate":
		err = number(&k.Truncate)
	case "hold":
		k.Hold, err = strconv.ParseBool(value)
	case "stall":
		err = number(&k.Stall)
	case "redirects":
		err = number(&k.Redirects)
	case "redirect":
		k.Redirect = value
	case "type":
		k.Type = value
	case "token":
		k.Token = value
	case "whole":
		k.Whole, err = strconv.ParseBool(value)
	case "times":
		err = number(&k.Times)
	default:
		return fmt.Errorf("no knob %q", name)
	}
	if err != nil {
		return fmt.Errorf("knob %s: %w", name, err)
	}
	return nil
}

// setting is one setting of the knobs. changed is closed when they are set again.
type setting struct {
	Knobs
	left    int
	changed chan struct{}
}

// Set replaces the knobs of one kind of requests, or with [All] those of every kind. Held requests continue.
func (u *Upstream) Set(kind Kind, k Knobs) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for old, s := range u.settings {
		if kind == All || old == kind {
			close(s.changed)
			delete(u.settings, old)
		}
	}
	u.settings[kind] = &setting{Knobs: k, left: k.Times, changed: make(chan struct{})}
}

// take returns the setting for a request of one kind: that of the requested version if the fixture has one, else that
// of the upstream. Without either it returns the zero setting.
func (u *Upstream) take(kind Kind, path string) setting {
	u.mu.Lock()
	defer u.mu.Unlock()
	var s *setting
	if r, _ := u.served.released(path); r != nil {
		s = r.settings[kind]
	}
	if s == nil {
		s = u.settings[kind]
	}
	if s == nil {
		s = u.settings[All]
	}
	if s == nil {
		return setting{}
	}
	if s.Times > 0 {
		if s.left == 0 {
			return setting{}
		}
		s.left--
	}
	return *s
}

// answer wraps next with the knobs of kind.
func (u *Upstream) answer(kind Kind, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := u.take(kind, r.URL.Path)
		if !s.wait(r) {
			panic(http.ErrAbortHandler)
		}
		if s.refuse(w, r) {
			return
		}
		if s.Whole {
			r.Header.Del("Range")
		}
		if s.Type != "" || s.Bandwidth > 0 || s.Truncate > 0 || s.Stall > 0 {
			w = &slowWriter{ResponseWriter: w, setting: s, request: r}
		}
		next.ServeHTTP(w, r)
	})
}

// wait applies hold and latency. It returns false if the client has disconnected.
func (s setting) wait(r *http.Request) bool {
	if s.Hold && !s.held(r) {
		return false
	}
	if s.Latency > 0 {
		return pause(r, s.Latency)
	}
	return true
}

// held waits until the knobs change. It returns false if the client has disconnected.
func (s setting) held(r *http.Request) bool {
	select {
	case <-s.changed:
		return true
	case <-r.Context().Done():
		return false
	}
}

func pause(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// refuse answers in place of the upstream, if the knobs require it.
func (s setting) refuse(w http.ResponseWriter, r *http.Request) bool {
	if s.Redirects > 0 {
		query := r.URL.Query()
		done, _ := strconv.Atoi(query.Get("redirected"))
		if done < s.Redirects {
			query.Set("redirected", strconv.Itoa(done+1))
			http.Redirect(w, r, r.URL.Path+"?"+query.Encode(), http.StatusFound)
			return true
		}
	}
	if s.Redirect != "" {
		http.Redirect(w, r, s.Redirect+r.URL.RequestURI(), http.StatusFound)
		return true
	}
	status := s.Status
	if s.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.Token {
		status = http.StatusUnauthorized
	}
	if status == 0 {
		return false
	}
	if s.RetryAfter != "" {
		w.Header().Set("Retry-After", s.RetryAfter)
	}
	http.Error(w, "the knobs say "+strings.ToLower(http.StatusText(status)), status)
	return true
}

// slowWriter writes an answer with the type, speed and length of the knobs.
type slowWriter struct {
	http.ResponseWriter
	setting
	request *http.Request
	written int
}

func (w *slowWriter) WriteHeader(status int) {
	if w.Type != "" {
		w.Header().Set("Content-Type", w.Type)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.written == 0 && w.Type != "" {
		w.Header().Set("Content-Type", w.Type)
	}
	total := 0
	for len(p) > 0 {
		n := len(p)
		if w.Bandwidth > 0 {
			n = min(n, max(1, w.Bandwidth/20))
		}
		if w.written < w.Stall {
			n = min(n, w.Stall-w.written)
		}
		if w.Truncate > 0 {
			n = min(n, w.Truncate-w.written)
		}
		m, err := w.ResponseWriter.Write(p[:n])
		w.written, total, p = w.written+m, total+m, p[m:]
		if err != nil {
			return total, err
		}
		w.flush()
		if w.Truncate > 0 && w.written >= w.Truncate {
			panic(http.ErrAbortHandler)
		}
		if w.Stall > 0 && w.written == w.Stall && !w.held(w.request) {
			panic(http.ErrAbortHandler)
		}
		if w.Bandwidth > 0 && !pause(w.request, time.Second/20) {
			panic(http.ErrAbortHandler)
		}
	}
	return total, nil
}

func (w *slowWriter) flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
