package git_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch/git"
)

// processesWith lists the processes with text in their arguments or environment: all processes of a fetch have the path
// of its directory there.
func processesWith(t testing.TB, text string, file string) []string {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/" + file)
	if err != nil || len(names) == 0 {
		t.Fatalf("no processes in /proc: %v", err)
	}
	var found []string
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(text)) {
			found = append(found, name)
		}
	}
	return found
}

// silent does not answer until its request or the test ends.
func silent(t testing.TB, asked func()) http.Handler {
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked()
		_, _ = io.Copy(io.Discard, r.Body) // otherwise r's context does not end with its connection
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	})
}

func TestEndsInTime(t *testing.T) {
	t.Parallel()
	f := oldFetcher(t)
	dir := f.Dir
	var running atomic.Int32
	s := serve(t, silent(t, func() { running.Store(int32(len(processesWith(t, dir, "environ")))) }))
	f.Limits.Time = 3 * time.Second // includes the start of git, also on a busy machine
	_, err := f.FetchURL(t.Context(), s.URL+"/x", files{})
	if !errors.Is(err, modproxy.ErrUnavailable) || !strings.HasSuffix(err.Error(), "not done after 3s") {
		t.Errorf("error %v", err)
	}
	if n := running.Load(); n < 2 {
		t.Errorf("%d processes were running, want git and what it started", n)
	}
	if left := processesWith(t, dir, "environ"); len(left) > 0 {
		t.Errorf("left running: %s", left)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s left behind", left)
	}
}

func TestEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("nobody wants it any more")
	s := serve(t, silent(t, func() { cancel(reason) }))
	f := newFetcher(t)
	_, err := f.FetchURL(ctx, s.URL+"/x", files{})
	if !errors.Is(err, reason) {
		t.Errorf("error %v", err)
	}
	if left := processesWith(t, f.Dir, "environ"); len(left) > 0 {
		t.Errorf("left running: %s", left)
	}
}

// failing is a Tree that accepts nothing.
type failing struct{ error }

func (f failing) File(string, bool, io.Reader) error { return f.error }
func (f failing) Link(string, string) error          { return f.error }

// panicking is a Tree that panics for every file.
type panicking struct{}

func (panicking) File(string, bool, io.Reader) error { panic("SECRET") }
func (panicking) Link(string, string) error          { panic("SECRET") }

// A panic about untrusted files ends its fetch, and no other.
func TestPanic(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "a.git")
	a.write("noise", noise(1<<20)) // more than a pipe holds
	a.commit("a")
	f := newFetcher(t)
	_, err := f.FetchURL(t.Context(), serve(t, backend(t, root)).URL+"/a.git/.git", panicking{})
	if !errors.Is(err, modproxy.ErrUnavailable) || !strings.Contains(err.Error(), "string at limits_test.go:") ||
		strings.Contains(err.Error(), "SECRET") {
		t.Errorf("error %v", err)
	}
	if left := processesWith(t, f.Dir, "environ"); len(left) > 0 {
		t.Errorf("left running: %s", left)
	}
	if left, _ := os.ReadDir(f.Dir); len(left) > 0 {
		t.Errorf("%s left behind", left)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	big := newAuthor(t, root, "big.git")
	big.write("noise", noise(4<<20))
	big.commit("big")
	bomb := newAuthor(t, root, "bomb.git")
	bomb.write("zeros", strings.Repeat("\x00", 4<<20))
	bomb.commit("bomb")
	many := newAuthor(t, root, "many.git")
	for i := range 20 {
		many.write(fmt.Sprintf("%d.tf", i), "")
	}
	many.commit("many")
	// A commit cannot contain its own id, but its submodule may lead to the next one of an endless row of commits.
	self := newAuthor(t, root, "self.git")
	self.write(".gitmodules", "[submodule \"self\"]\n\tpath = self\n\turl = ../../self.git/.git\n")
	id := self.commit("0")
	for i := range 3 {
		self.submodule("self", id)
		self.git("commit", "-q", "-m", fmt.Sprint(i+1))
		id = self.git("rev-parse", "HEAD")
	}
	full := errors.New("full")
	s := serve(t, backend(t, root))
	for _, test := range []struct {
		repository string
		limits     git.Limits
		tree       git.Tree
		is         error
		says       string
	}{
		// Either the session or the size on disk reports it first.
		{"big.git", git.Limits{Received: 1 << 20}, files{}, modproxy.ErrInvalid, ""},
		{"bomb.git", git.Limits{Content: 1 << 20}, files{}, modproxy.ErrInvalid,
			"the files are larger than the 1048576 bytes that are allowed (operator: fetch.max_unpacked)"},
		{"many.git", git.Limits{Entries: 19}, files{}, modproxy.ErrInvalid,
			"the tree has more than the 19 entries that are allowed (operator: fetch.max_files)"},
		{"self.git", git.Limits{Depth: 2}, files{}, modproxy.ErrInvalid, "more than 2 submodules within each other"},
		{"self.git", git.Limits{Submodules: 2}, files{}, modproxy.ErrInvalid, "more than the 2 submodules that are allowed"},
		{"big.git", git.Limits{}, failing{full}, full, "git: full"},
		{"big.git", git.Limits{Received: 8 << 20, Content: 4 << 20, Entries: 1}, files{}, nil, ""},
		{"many.git", git.Limits{Entries: 20}, files{}, nil, ""},
		{"self.git", git.Limits{Depth: 3, Submodules: 3}, files{}, nil, ""},
	} {
		bothWays(t, "", func(t *testing.T, f *git.Getter) {
			if taken, ok := test.tree.(files); ok {
				clear(taken)
			}
			f.Limits = test.limits
			_, err := f.FetchURL(t.Context(), s.URL+"/"+test.repository+"/.git", test.tree)
			if !errors.Is(err, test.is) || err != nil && !strings.HasSuffix(err.Error(), test.says) {
				t.Errorf("%s with %+v: error %v", test.repository, test.limits, err)
			}
			if left, _ := os.ReadDir(f.Dir); len(left) > 0 {
				t.Errorf("%s left behind", left)
			}
		})
	}
}

// An endless answer is cut off; the fetch does not wait for its end.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		fmt.Fprint(w, "001e# service=git-upload-pack\n0000")
		for i := 0; r.Context().Err() == nil; i++ {
			if _, err := fmt.Fprintf(w, "%04x%040x refs/heads/%010d\n", 4+40+1+11+10+1, i+1, i); err != nil {
				return
			}
		}
	}))
	f := newFetcher(t)
	out := newNetwork(t, "127.0.0.1")
	f.Network = out
	f.Limits.Received = 1 << 20
	_, err := f.FetchURL(t.Context(), s.URL+"/x?ref=main", files{})
	if !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("error %v", err)
	}
	for _, s := range out.sessions {
		if n := s.Received(); n > 2<<20 {
			t.Errorf("%d bytes were received", n)
		}
	}
}

// The headers that git records count as disk space of the repository.
func TestEndlessHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 8000 {
			w.Header().Add("A", "")
		}
		w.Header().Set("Content-Type", "text/plain")
		if strings.HasSuffix(r.URL.Path, "/info/refs") { // the old protocol, file by file
			fmt.Fprintf(w, "%040x\trefs/heads/main\n", 1)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	f := newFetcher(t)
	f.Limits.Received = 1 << 20
	_, err := f.FetchURL(t.Context(), s.URL+"/x.git?ref=main", files{})
	if !errors.Is(err, modproxy.ErrInvalid) ||
		!strings.HasSuffix(err.Error(), "larger than the 1048576 bytes that are allowed (operator: fetch.max_received)") {
		t.Errorf("error %v", err)
	}
}
