package git_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch/git"
)

// clientEnv is the environment of the gits that tests run themselves.
var clientEnv = []string{
	"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_TERMINAL_PROMPT=0",
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ALLOW_PROTOCOL=http:https:ssh:file",
	"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2020-01-01T00:00:00Z",
	"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=2020-01-01T00:00:00Z",
}

func tryGit(dir string, env []string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, append(clientEnv[:len(clientEnv):len(clientEnv)], env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

func runGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// author is a repository that a test writes.
type author struct {
	t   testing.TB
	dir string
}

// newAuthor makes the repository root/name with a work tree. name ends in .git only so that relative URLs look like
// those of a forge.
func newAuthor(t testing.TB, root, name string, options ...string) author {
	t.Helper()
	dir := filepath.Join(root, name)
	runGit(t, "/", append(append([]string{"init", "-q", "-b", "main"}, options...), dir)...)
	return author{t, dir}
}

func (a author) git(args ...string) string { a.t.Helper(); return runGit(a.t, a.dir, args...) }

// write writes a file. The name of an executable file ends in !, and the content of a link begins with ->.
func (a author) write(name, content string) {
	a.t.Helper()
	name, executable := strings.CutSuffix(name, "!")
	file := filepath.Join(a.dir, name)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if target, ok := strings.CutPrefix(content, "->"); ok && err == nil {
		err = os.Symlink(target, file)
	} else if err == nil {
		err = os.WriteFile(file, []byte(content), 0o644)
	}
	if executable && err == nil {
		err = os.Chmod(file, 0o755)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a author) commit(message string) string {
	a.t.Helper()
	a.git("add", "-A")
	a.git("commit", "-q", "--allow-empty", "-m", message)
	return a.git("rev-parse", "HEAD")
}

// submodule adds a link to a commit, and no entry in .gitmodules.
func (a author) submodule(path, commit string) {
	a.t.Helper()
	a.git("update-index", "--add", "--cacheinfo", "160000,"+commit+","+path)
	if err := os.MkdirAll(filepath.Join(a.dir, path), 0o755); err != nil {
		a.t.Fatal(err)
	}
}

// server is a git server on loopback.
type server struct {
	*httptest.Server
	caFile string // for TLS
}

// backend returns git http-backend for the repositories below root.
func backend(t testing.TB, root string) http.Handler {
	t.Helper()
	return &cgi.Handler{
		Path: filepath.Join(runGit(t, "/", "--exec-path"), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
		Stderr: io.Discard,
		Logger: log.New(io.Discard, "", 0),
	}
}

func serve(t testing.TB, handler http.Handler) server {
	t.Helper()
	s := server{Server: httptest.NewServer(handler)}
	t.Cleanup(s.Close)
	return s
}

func serveTLS(t testing.TB, handler http.Handler) server {
	t.Helper()
	s := server{Server: httptest.NewUnstartedServer(handler)}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	s.caFile = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(s.caFile, block, 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

// network is an egress client that leaves the check of URLs to its sessions, and records the sessions.
type network struct {
	*egress.Client
	check   func(context.Context, *url.URL) error
	resolve func(ctx context.Context, host string, port int) (netip.AddrPort, error)

	old bool // no server answers a POST

	mu       sync.Mutex
	sessions []*egress.Session
	posts    int
}

// newNetwork returns a network that may connect to allow, also over http.
func newNetwork(t testing.TB, allow ...string) *network {
	t.Helper()
	return newNetworkTrusting(t, "", allow...)
}

// newNetworkTrusting returns a network that trusts the root certificates in caFile.
func newNetworkTrusting(t testing.TB, caFile string, allow ...string) *network {
	t.Helper()
	client, err := egress.New(egress.Config{Allow: allow, CAFile: caFile, NoHedging: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &network{Client: client}
}

func (n *network) Check(ctx context.Context, u *url.URL) error {
	if n.check == nil {
		return nil
	}
	return n.check(ctx, u)
}

func (n *network) Resolve(ctx context.Context, host string, port int) (netip.AddrPort, error) {
	return n.resolve(ctx, host, port)
}

func (n *network) Session(maxBytes int64) (*egress.Session, error) {
	s, err := n.Client.Session(maxBytes)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sessions = append(n.sessions, s)
	return s, err
}

func (n *network) Post(ctx context.Context, r egress.Request, body []byte) (*http.Response, error) {
	if n.old {
		return &http.Response{StatusCode: http.StatusMethodNotAllowed, Body: http.NoBody}, nil
	}
	n.mu.Lock()
	n.posts++
	n.mu.Unlock()
	return n.Client.Post(ctx, r, body)
}

func newFetcher(t testing.TB) *git.Getter {
	t.Helper()
	return newFetcherTrusting(t, "")
}

// newFetcherTrusting returns a Getter that trusts the root certificates in caFile.
func newFetcherTrusting(t testing.TB, caFile string) *git.Getter {
	t.Helper()
	return &git.Getter{Dir: t.TempDir(), CAFile: caFile, Network: newNetworkTrusting(t, caFile, "127.0.0.1")}
}

// oldFetcher returns a Getter whose requests are all sent by git.
func oldFetcher(t testing.TB) *git.Getter {
	t.Helper()
	return old(newFetcher(t))
}

func old(f *git.Getter) *git.Getter {
	f.Network.(*network).old = true
	return f
}

// bothWays runs test with a Getter that sends direct requests, and with one that uses git.
func bothWays(t *testing.T, caFile string, test func(t *testing.T, f *git.Getter)) {
	t.Run("direct", func(t *testing.T) { test(t, newFetcherTrusting(t, caFile)) })
	t.Run("git", func(t *testing.T) { test(t, old(newFetcherTrusting(t, caFile))) })
}

// files is a Tree in memory: content by path.
type files map[string]string

func (f files) File(name string, executable bool, r io.Reader) error {
	content, err := io.ReadAll(r)
	mode := "file "
	if executable {
		mode = "executable "
	}
	if _, twice := f[name]; twice {
		return fmt.Errorf("%s twice", name)
	}
	f[name] = mode + string(content)
	return err
}

func (f files) Link(name, target string) error {
	if _, twice := f[name]; twice {
		return fmt.Errorf("%s twice", name)
	}
	f[name] = "link " + target
	return nil
}

// workTree returns the content of dir, without .git.
func workTree(t testing.TB, dir string) files {
	t.Helper()
	f := files{}
	readTree(t, dir, f)
	return f
}

// readTree adds the content of dir, without .git, to f.
func readTree(t testing.TB, dir string, f git.Tree) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel, _ := filepath.Rel(dir, name)
		switch {
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return f.Link(rel, target)
		case d.IsDir():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, err := os.Open(name)
		if err != nil {
			return err
		}
		defer content.Close()
		return f.File(rel, info.Mode()&0o100 != 0, content)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return string(b)
}

// requests records the requests to a handler.
type requests struct {
	mu   sync.Mutex
	seen []*http.Request
}

func (r *requests) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen = append(r.seen, req)
		r.mu.Unlock()
		h.ServeHTTP(w, req)
	})
}

func (r *requests) all() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}
