package egress_test

import (
	"errors"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/egress"
)

// gitEnv returns an environment in which git has only the configuration in settings.
func gitEnv(t *testing.T, settings ...string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a.test", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a.test",
		"GIT_CONFIG_COUNT=" + strconv.Itoa(len(settings)/2),
	}
	for i := 0; i < len(settings); i += 2 {
		n := strconv.Itoa(i / 2)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+settings[i], "GIT_CONFIG_VALUE_"+n+"="+settings[i+1])
	}
	return env
}

func git(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// gitServer serves a repository of one commit at /repo.git, with a file of size random-looking bytes. It redirects from /moved/
// and /stolen/.
func gitServer(t *testing.T, scheme string, stolen string) *server {
	t.Helper()
	root := t.TempDir()
	bare := filepath.Join(root, "repo.git")
	work := filepath.Join(root, "work")
	env := gitEnv(t, "init.defaultBranch", "main")
	noise := make([]byte, 200<<10)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	for _, args := range [][]string{
		{"init", "-q", "--bare", bare}, {"clone", "-q", bare, work}, {"-C", work, "add", "."},
		{"-C", work, "commit", "-qm", "one"}, {"-C", work, "push", "-q", "origin", "HEAD:main"},
	} {
		if args[0] == "-C" && args[2] == "add" {
			if err := os.WriteFile(filepath.Join(work, "main.tf"), noise, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := git(t, root, env, args...); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: path, Args: []string{"http-backend"}, Dir: root, Logger: quiet,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1"},
	}
	return serve(t, scheme, "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		if rest, ok := strings.CutPrefix(r.URL.Path, "/stolen"); ok {
			http.Redirect(w, r, stolen+rest+"?"+r.URL.RawQuery, http.StatusFound)
			return
		}
		if rest, ok := strings.CutPrefix(r.URL.Path, "/moved"); ok {
			http.Redirect(w, r, rest+"?"+r.URL.RawQuery, http.StatusFound)
			return
		}
		backend.ServeHTTP(w, r)
	})
}

func TestGitThroughASession(t *testing.T) {
	secret := canary(t)
	ca := caFile(t)
	for _, scheme := range []string{"https", "http"} {
		s := gitServer(t, scheme, secret.at("https", "evil.test", ""))
		c := client(t, up())
		for _, tt := range []struct {
			host, path string
			max        int64
			want       error
		}{
			{"up.test", "/repo.git", 1 << 20, nil},
			{"up.test", "/moved/repo.git", 1 << 20, nil},
			{"up.test", "/stolen/repo.git", 1 << 20, egress.ErrRefused},
			{"two.test", "/repo.git", 1 << 20, egress.ErrRefused},
			{"127.0.0.1", "/repo.git", 1 << 20, egress.ErrRefused},
			{"up.test", "/repo.git", 100 << 10, egress.ErrTooLarge},
		} {
			session := open(t, c, tt.max)
			env := gitEnv(t, "http.proxy", session.URL(), "http.proxyAuthMethod", "basic", "http.sslCAInfo", ca)
			dir := t.TempDir()
			if out, err := git(t, dir, env, "init", "-q", "--bare", "."); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			url := s.at(scheme, tt.host, tt.path)
			out, err := git(t, dir, env, "ls-remote", "--", url)
			if err == nil && !strings.Contains(out, "refs/heads/main") {
				t.Errorf("ls-remote %s: %s", url, out)
			}
			if err == nil {
				out, err = git(t, dir, env, "fetch", "-q", "--depth=1", "--", url, "refs/heads/main")
			}
			if (err == nil) != (tt.want == nil) || !errors.Is(session.Refused(), tt.want) {
				t.Errorf("%s within %d: %v, refused: %v, received %d\n%s", url, tt.max, err, session.Refused(),
					session.Received(), out)
			}
			if err == nil && session.Received() < 200<<10 {
				t.Errorf("%s: received %d bytes", url, session.Received())
			}
			session.Close()
		}
	}
}
