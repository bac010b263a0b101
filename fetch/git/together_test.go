package git_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/pack"
)

// egressFetcher returns a Getter as modproxy uses it.
func egressFetcher(t testing.TB, caFile string, allow ...string) *git.Getter {
	t.Helper()
	client, err := egress.New(egress.Config{Allow: allow, CAFile: caFile, NoHedging: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &git.Getter{Dir: t.TempDir(), CAFile: caFile, Network: client}
}

func TestWithEgressAndPack(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "a.git")
	a.write("main.tf", "main\n")
	a.write("run.sh!", "run\n")
	a.write("link.tf", "->main.tf")
	a.write("noise", noise(300<<10))
	id := a.commit("a")
	s := serveTLS(t, backend(t, root))
	url := s.URL + "/a.git/.git"

	b, err := pack.New(t.TempDir(), pack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	f := egressFetcher(t, s.caFile, "127.0.0.1")
	if commit, err := f.FetchURL(t.Context(), url, b); err != nil || commit != id {
		t.Fatalf("commit %s, want %s, error %v", commit, id, err)
	}
	var packed bytes.Buffer
	if _, err := b.Pack(&packed, ""); err != nil || packed.Len() < 300<<10 {
		t.Errorf("%d bytes packed, error %v", packed.Len(), err)
	}

	f.Limits.Received = 100 << 10
	if _, err := f.FetchURL(t.Context(), url, files{}); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("too large: error %v", err)
	}
	f = egressFetcher(t, s.caFile)
	if _, err := f.FetchURL(t.Context(), url, files{}); !errors.Is(err, modproxy.ErrDenied) ||
		!errors.Is(err, egress.ErrRefused) {
		t.Errorf("loopback: error %v", err)
	}
	f.Network = newNetwork(t) // so that only the tunnel refuses it
	if _, err := f.FetchURL(t.Context(), url, files{}); !errors.Is(err, modproxy.ErrDenied) ||
		!errors.Is(err, egress.ErrRefused) {
		t.Errorf("loopback, by the tunnel: error %v", err)
	}
}

// No configuration of the machine, and no attribute of the repository, makes git run a program or read other files.
func TestMachineIsNotAsked(t *testing.T) {
	root, home := t.TempDir(), t.TempDir()
	mark := filepath.Join(home, "mark")
	a := newAuthor(t, root, "a.git")
	a.write(".gitattributes", "* filter=evil diff=evil merge=evil\n")
	a.write("main.tf", "main\n")
	a.commit("a")
	config := "[filter \"evil\"]\n\tsmudge = touch " + mark + "\n\trequired = true\n[core]\n\thooksPath = " + home +
		"\n\tautocrlf = true\n" +
		"[http]\n\tproxy = http://127.0.0.1:1\n[credential]\n\thelper = \"!touch " + mark +
		"\"\n[url \"http://127.0.0.1:1/\"]\n\tinsteadOf = http://\n"
	for _, name := range []string{".gitconfig", "git/config", "git/attributes"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if name == "git/attributes" {
			config = "* text eol=crlf\n"
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": home, "GIT_DIR": home, "GIT_WORK_TREE": home, "http_proxy": "http://127.0.0.1:1",
		"ALL_PROXY":         "http://127.0.0.1:1",
		"GIT_CONFIG_GLOBAL": filepath.Join(home, ".gitconfig"), "GIT_SSH_COMMAND": "touch " + mark,
		"GIT_PROXY_COMMAND": "touch " + mark, "GIT_TRACE": mark, "GIT_ALLOW_PROTOCOL": "ext",
	} {
		t.Setenv(key, value)
	}
	s := serve(t, backend(t, root))
	got := files{}
	if _, err := newFetcher(t).FetchURL(t.Context(), s.URL+"/a.git/.git", got); err != nil ||
		got["main.tf"] != "file main\n" {
		t.Errorf("%q, error %v", got, err)
	}
	if _, err := os.Lstat(mark); err == nil {
		t.Error("something of the machine's configuration was run")
	}
}

// A repository with authors and dates in obsolete forms is fetched. A repository whose tree has a forbidden path is
// refused, and others are still asked directly.
func TestFlaws(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "a.git")
	a.write("main.tf", "main\n")
	a.commit("a")
	object := func(kind, content string) string {
		file := filepath.Join(t.TempDir(), "object")
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return a.git("hash-object", "-w", "--literally", "-t", kind, file)
	}
	tree, blob := a.git("rev-parse", "HEAD^{tree}"), a.git("rev-parse", "HEAD:main.tf")
	raw := make([]byte, len(blob)/2)
	for i := range raw {
		raw[i] = hexByte(blob[2*i:])
	}
	old := object("commit",
		"tree "+tree+"\nauthor A<a> 0 +051800\ncommitter a <a@b> 00000000000000000000001 +0000\n\nold\n")
	padded := object("tree", "0100644 main.tf\x00"+string(raw))
	dotGit := object("tree", "100644 .git\x00"+string(raw))
	dots := object("tree", "100644 ..\x00"+string(raw))
	slash := object("tree", "100644 a/b\x00"+string(raw))
	twice := object("tree", "100644 a\x00"+string(raw)+"100644 a\x00"+string(raw))
	s := serve(t, backend(t, root))
	for name, test := range map[string]struct {
		commit string
		taken  bool
	}{
		"old":    {old, true},
		"padded": {a.git("commit-tree", "-m", "x", padded), true},
		"dotgit": {a.git("commit-tree", "-m", "x", dotGit), false},
		"dots":   {a.git("commit-tree", "-m", "x", dots), false},
		"slash":  {a.git("commit-tree", "-m", "x", slash), false},
		"twice":  {a.git("commit-tree", "-m", "x", twice), false},
	} {
		a.git("update-ref", "refs/tags/"+name, test.commit)
		f, got := newFetcher(t), files{}
		_, err := f.FetchURL(t.Context(), s.URL+"/a.git/.git?ref="+name, got)
		if (err == nil) != test.taken || !test.taken && len(got) > 0 {
			t.Errorf("%s: %q, error %v", name, got, err)
		}
		posts := f.Network.(*network).posts
		_, err = f.FetchURL(t.Context(), s.URL+"/a.git/.git?ref=main", files{})
		if posts = f.Network.(*network).posts - posts; err != nil || posts != 2 {
			t.Errorf("main after %s: %d questions without git, error %v", name, posts, err)
		}
	}
}

func hexByte(s string) byte {
	const digits = "0123456789abcdef"
	return byte(strings.IndexByte(digits, s[0])<<4 | strings.IndexByte(digits, s[1]))
}

func TestScrub(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "remote: hello\n": "",
		"fatal: unable to access 'https://u:p@h/x?token=t#f': no\n": ": unable to access 'https://h/x': no",
		"warning: x\nfatal: s3cret is \x1b[31mred\n":                ": [redacted] is ?[31mred",
		"fatal: unable to access 'https://h:8443/a@b/c.git/': no\n": ": unable to access 'https://h:8443/a@b/c.git/': no",
		"fatal: unable to access 'https://u:p/q@h/x': no\n":         ": unable to access 'https://h/x': no",
		// t0k is the host
		"fatal: unable to access 'https://t0k/q@h/x': no\n": ": unable to access 'https://t0k/q@h/x': no",
		"error: one\nfatal: two\n":                          ": one; two",
		"fatal: " + strings.Repeat("x", 300):                ": " + strings.Repeat("x", 240) + " ...",
	} {
		if got := git.Scrub(in, false, "", "s3cret"); got != want {
			t.Errorf("Scrub(%q) = %q, want %q", in, got, want)
		}
	}
	const ssh = "@@@\nWARNING\nHost key verification failed.\n" +
		"fatal: Could not read from remote repository.\n\nPlease make sure\n"
	if got, want := git.Scrub(ssh, true), ": Host key verification failed."; got != want {
		t.Errorf("Scrub = %q, want %q", got, want)
	}
}

// BenchmarkFetchAndPack fetches a version of a module that is not cached: one commit out of many, packed.
func BenchmarkFetchAndPack(b *testing.B) {
	root := b.TempDir()
	a := newAuthor(b, root, "a.git")
	for i := range 100 {
		a.write(filepath.Join("modules", string(rune('a'+i%26)), "main.tf"),
			strings.Repeat("resource \"x\" \"y\" {}\n", i+1)+noise(8))
		a.commit("x")
	}
	id := a.git("rev-parse", "HEAD~50")
	s := serveTLS(b, backend(b, root))
	f := egressFetcher(b, s.caFile, "127.0.0.1")
	dir := b.TempDir()
	b.ResetTimer()
	for b.Loop() {
		builder, err := pack.New(dir, pack.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.FetchURL(b.Context(), s.URL+"/a.git/.git?ref="+id, builder); err != nil {
			b.Fatal(err)
		}
		var packed bytes.Buffer
		if _, err := builder.Pack(&packed, ""); err != nil {
			b.Fatal(err)
		}
		builder.Close()
	}
}
