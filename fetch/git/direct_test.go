package git_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
)

// asked returns the requests without their repository.
func (r *requests) asked() (all []string) {
	for _, req := range r.all() {
		all = append(all, req.Method+" "+req.URL.Path[strings.Index(req.URL.Path, ".git/.git")+len(".git/.git"):])
	}
	return all
}

const (
	post  = "POST /git-upload-pack"
	first = "GET /info/refs"
)

// A commit id is fetched with one request, other refs with two, on one connection.
func TestRequests(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := history(t, root, "sha1.git")
	wide := history(t, root, "sha256.git", "--object-format=sha256")
	for _, test := range []struct {
		repository, ref string
		want            []string
	}{
		{"sha1.git", a.git("rev-parse", "main~2"), []string{post}},
		{"sha1.git", a.git("rev-parse", "v2.0.0"), []string{post}}, // the id of a tag
		{"sha1.git", "v2.0.0", []string{post, post}},
		{"sha1.git", "20240101", []string{post, post}},
		{"sha1.git", "", []string{post, post}},
		{"sha1.git", "v9", []string{post}},
		{"sha256.git", wide.git("rev-parse", "main~2"), []string{post}},
		{"sha256.git", "both", []string{post, post, post}}, // the first in the wrong format
	} {
		var seen requests
		s := serve(t, seen.around(backend(t, root)))
		f := newFetcher(t)
		_, err := f.FetchURL(t.Context(), s.URL+"/"+test.repository+"/.git?ref="+test.ref, files{})
		if (err != nil) != (test.ref == "v9") || !slices.Equal(seen.asked(), test.want) {
			t.Errorf("%s ref %q: error %v after %q; want %q", test.repository, test.ref, err, seen.asked(), test.want)
		}
		for _, r := range seen.all() {
			if r.RemoteAddr != seen.all()[0].RemoteAddr {
				t.Errorf("%s ref %q: %s is not the first connection", test.repository, test.ref, r.RemoteAddr)
			}
		}
	}
}

// A ref that does not exist is an error about that ref only: the next fetch still asks the repository directly.
func TestMistaken(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	narrow := history(t, root, "sha1.git")
	wide := history(t, root, "sha256.git", "--object-format=sha256")
	dumb := filepath.Join(root, "dumb.git", ".git")
	runGit(t, "/", "clone", "-q", "--bare", narrow.dir, dumb)
	runGit(t, dumb, "update-server-info")
	const (
		noCommit = "not found: it names a tree or a file, not a commit"
		isNarrow = "not found: no such commit: the ids of the repository are of sha1"
		isWide   = "not found: no such commit: the ids of the repository are of sha256"
	)
	for _, test := range []struct {
		repository, ref, says string
		want                  []string
	}{
		{"sha1.git", "not-a-commit", noCommit, []string{post, post}},
		{"sha1.git", "a-tree", noCommit, []string{post, post}},
		{"sha1.git", "20250101", noCommit, []string{post, post}},
		{"sha1.git", narrow.git("rev-parse", "a-tree"), noCommit, []string{post}}, // the id of a tag
		{"sha1.git", narrow.git("rev-parse", "main^{tree}"), noCommit, []string{post}},
		{"sha1.git", wide.git("rev-parse", "main"), isNarrow, []string{post, post}},
		{"sha1.git", strings.Repeat("1", 40), "not found: no such commit", nil},
		{"sha256.git", "not-a-commit", noCommit, []string{post, post, post}},
		{"sha256.git", narrow.git("rev-parse", "main"), isWide, []string{post, post}},
		{"dumb.git", "not-a-commit", noCommit, nil},
		{"dumb.git", "20250101", noCommit, nil},
		{"dumb.git", narrow.git("rev-parse", "main^{tree}"), noCommit, nil},
		{"dumb.git", wide.git("rev-parse", "main"), isNarrow, nil},
	} {
		bothWays(t, "", func(t *testing.T, f *git.Getter) {
			handler, direct := backend(t, root), !f.Network.(*network).old
			if test.repository == "dumb.git" {
				if !direct {
					return // git sends all requests in any case
				}
				handler, direct = http.FileServer(http.Dir(root)), false
			}
			var seen requests
			url := serve(t, seen.around(handler)).URL + "/" + test.repository + "/.git?ref="
			_, err := f.FetchURL(t.Context(), url+test.ref, files{})
			if !errors.Is(err, modproxy.ErrNotFound) || !strings.HasSuffix(err.Error(), test.says) {
				t.Errorf("%s ref %s: error %v, want %s", test.repository, test.ref, err, test.says)
			}
			asked := seen.asked()
			if direct && test.want != nil && !slices.Equal(asked, test.want) {
				t.Errorf("%s ref %s: asked %q, want %q", test.repository, test.ref, asked, test.want)
			}
			if _, err := f.FetchURL(t.Context(), url+"main", files{}); err != nil {
				t.Error(err)
			}
			if next := seen.asked()[len(asked)]; direct && next != post {
				t.Errorf("%s after ref %s: asked %q, want %q", test.repository, test.ref, next, post)
			}
		})
	}
}

// git asks a server that does not answer direct requests, for a while. A failing server is asked directly again.
func TestAskedByGit(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	commit := history(t, root, "a.git").git("rev-parse", "main~2")
	history(t, root, "b.git")
	good := backend(t, root)
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(code); return true }
	}
	answer := func(body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			io.WriteString(w, body)
			return true
		}
	}
	for name, test := range map[string]struct {
		// to answers a direct request, or changes it.
		to    func(http.ResponseWriter, *http.Request) bool
		again string // the first request about the same repository
		other string // and one about another repository
	}{
		"version 0": {func(_ http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("Git-Protocol")
			return false
		}, first, post},
		"nothing":   {answer(""), first, post},
		"NAK":       {answer("0008NAK\n"), first, post},
		"no method": {status(405), first, first},
		"no such":   {status(501), first, first},
		"not found": {status(404), first, post},
		"forbidden": {status(403), first, post},
		"login": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/users/sign_in", http.StatusFound)
			return true
		}, first, post},
		"page": {func(w http.ResponseWriter, _ *http.Request) bool {
			io.WriteString(w, "<html>")
			return true
		}, post, post},
		"not ours":   {answer(line("ERR upload-pack: not our ref " + commit)), post, post},
		"elsewhere":  {answer(line("packfile-uris\n") + line(commit+" https://127.0.0.1:1/pack\n") + "0001"), first, post},
		"in trouble": {status(500), post, post},
		"part":       {func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(206); return true }, post, post},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen requests
			s := serve(t, seen.around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.UserAgent() != "git/modproxy" || !test.to(w, r) {
					good.ServeHTTP(w, r)
				}
			})))
			f := newFetcher(t)
			want := post
			for _, repository := range []string{"a.git", "a.git", "b.git"} {
				got, begin := files{}, len(seen.all())
				if _, err := f.FetchURL(t.Context(), s.URL+"/"+repository+"/.git?ref="+commit, got); err != nil || len(got) != 1 {
					t.Errorf("%s: %q, error %v", repository, got, err)
				}
				if asked := seen.asked()[begin:]; asked[0] != want {
					t.Errorf("%s: %q; want first %s", repository, asked, want)
				}
				if want = test.again; repository == "a.git" && len(seen.asked()) > begin && begin > 0 {
					want = test.other
				}
			}
		})
	}
}

// If a pack is refused, and git finds no repository or is denied, the error is about the pack.
func TestRefusedPack(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403, 404, 410} {
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				http.Error(w, "no", status)
				return
			}
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			io.WriteString(w, line("packfile\n")+banded("PACK nonsense")+"0000")
		}))
		_, err := newFetcher(t).FetchURL(t.Context(), s.URL+"/a.git?ref="+strings.Repeat("1", 40), files{})
		if !errors.Is(err, modproxy.ErrInvalid) || errors.Is(err, modproxy.ErrNotFound) || errors.Is(err, modproxy.ErrDenied) ||
			!strings.Contains(err.Error(), "a pack that git refuses") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func line(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }

// banded returns part of a pack as the data of one packet line.
func banded(pack string) string {
	var b strings.Builder
	for chunk := range slices.Chunk([]byte(pack), 60000) {
		b.WriteString(line("\x01" + string(chunk)))
	}
	return b.String()
}

// packed returns a pack of objects.
func (a author) packed(ids ...string) string {
	a.t.Helper()
	cmd := exec.Command("git", "pack-objects", "--stdout", "-q")
	cmd.Dir, cmd.Env, cmd.Stdin = a.dir, clientEnv, strings.NewReader(strings.Join(ids, "\n")+"\n")
	out, err := cmd.Output()
	if err != nil {
		a.t.Fatal(err)
	}
	return string(out)
}

// No answer adds files that the commit does not have, continues without end, or is followed elsewhere.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	a := newAuthor(t, t.TempDir(), "a.git")
	a.write("n.tf", "first\n")
	before := a.commit("first")
	a.write("n.tf", "second\n")
	commit := a.commit("second")
	tree, blob := a.git("rev-parse", "HEAD^{tree}"), a.git("rev-parse", "HEAD:n.tf")
	other := a.packed(before, a.git("rev-parse", "HEAD~^{tree}"), a.git("rev-parse", "HEAD~:n.tf"))
	pack := a.packed(commit, tree, blob)
	shallow := line("shallow-info\n") + line("shallow "+commit+"\n") + "0001"
	begun := shallow + line("packfile\n")
	broken := []byte(pack)
	broken[len(pack)/2] ^= 1
	whole := begun + banded(pack) + "0000"

	const ends = 1 << 30 // repeated without end
	zipped := func(s string, times int) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		for range times {
			io.WriteString(z, s)
		}
		z.Close()
		return b.String()
	}
	for name, test := range map[string]struct {
		answer string
		more   string // sent without end after it
		coding string
		is     error // nil: git is asked, without success
		says   string
		taken  bool
	}{
		"good": {answer: whole, taken: true},
		"good in small lines": {answer: begun + line("\x01"+pack[:1]) + line("\x02counting\n") + line("\x01") +
			banded(pack[1:]) + "0000", taken: true},
		"good, compressed":      {answer: zipped(whole, 1), coding: "gzip", taken: true},
		"empty lines":           {answer: begun + "0004" + banded(pack) + "0000"},
		"delimiter in the pack": {answer: begun + banded(pack[:9]) + "0001" + banded(pack[9:]) + "0000"},
		"end in the pack":       {answer: begun + banded(pack[:9]) + "0002"},
		"length 3":              {answer: begun + "0003"},
		"length of more":        {answer: begun + "fff1" + strings.Repeat("x", 0xffff)},
		"no length":             {answer: begun + "zzzz"},
		"band 0":                {answer: begun + line("\x00"+pack) + "0000"},
		"band 4":                {answer: begun + line("\x04"+pack) + "0000"},
		"band 3": {answer: begun + banded(pack[:9]) + line("\x03no \x1b[31mroom\nhttps://u:p@h/x?t=s\n") +
			"0000", is: modproxy.ErrUnavailable, says: "broke off: no ?[31mroom https://h/x"},
		"nothing":          {answer: ""},
		"no pack":          {answer: shallow + "0000"},
		"empty pack":       {answer: begun + "0000"},
		"cut short":        {answer: begun + banded(pack[:len(pack)-9]) + "0000"},
		"without an end":   {answer: begun + banded(pack), is: modproxy.ErrUnavailable, says: "unexpected EOF"},
		"a line cut short": {answer: begun + "0100\x01PACK", is: modproxy.ErrUnavailable, says: "unexpected EOF"},
		"damaged":          {answer: begun + banded(string(broken)) + "0000"},
		"not a pack":       {answer: begun + banded("something else") + "0000"},
		"another commit":   {answer: begun + banded(other) + "0000"},
		"missing tree":     {answer: begun + banded(a.packed(commit, blob)) + "0000"},
		"missing blob":     {answer: begun + banded(a.packed(commit, tree)) + "0000"},
		"missing parent":   {answer: line("packfile\n") + banded(pack) + "0000"},
		"another shallow":  {answer: strings.Replace(whole, "shallow "+commit, "shallow "+before, 1)},
		"shallow, no id":   {answer: strings.Replace(whole, "shallow "+commit, "shallow "+commit[:39]+"\n", 1)},
		"two shallow": {answer: line("shallow-info\n") + line("shallow "+commit+"\n") +
			line("shallow "+before+"\n") + "0001" + line("packfile\n") + banded(pack) + "0000"},
		"unshallow": {answer: line("shallow-info\n") + line("unshallow "+commit+"\n") + "0001" +
			line("packfile\n") + banded(pack) + "0000"},
		"twice shallow-info": {answer: shallow + whole},
		"twice":              {answer: whole + whole},
		"two packs":          {answer: begun + banded(pack) + "0001" + line("packfile\n") + banded(pack) + "0000"},
		"acknowledgments":    {answer: line("acknowledgments\n") + line("ready\n") + "0001" + whole},
		"wanted-refs":        {answer: line("wanted-refs\n") + line(commit+" refs/heads/main\n") + "0001" + whole},
		"packfile-uris":      {answer: line("packfile-uris\n") + line(commit+" SERVER/elsewhere\n") + "0001" + whole},
		"error":              {answer: line("ERR upload-pack: not our ref")},
		"version 0":          {answer: line("shallow "+commit+"\n") + "0000" + line("NAK\n") + pack},
		"endless progress": {answer: begun, more: line("\x02" + strings.Repeat("x", 999)), is: modproxy.ErrInvalid,
			says: "larger than the 1048576 bytes that are allowed (operator: fetch.max_received)"},
		"endless pack": {answer: begun + banded(pack[:12]), more: line("\x01" + noise(999)), is: nil},
		"endless after a pack": {answer: begun + banded(pack), more: line("\x02" + strings.Repeat("x", 999)),
			is: modproxy.ErrInvalid, says: "larger than the 1048576 bytes that are allowed (operator: fetch.max_received)"},
		"endless sections": {answer: "", more: shallow},
		"endless lines":    {answer: line("shallow-info\n"), more: line("x")},
		"bomb": {answer: zipped(begun, 1) + strings.Repeat(zipped(line("\x02"+strings.Repeat("x", 9999)), 99), 101),
			coding: "gzip", is: modproxy.ErrInvalid, says: "larger than the 1048576 bytes that are allowed (operator: fetch.max_received)"},
		"not compressed": {answer: whole, coding: "gzip", is: modproxy.ErrUnavailable},
		"another coding": {answer: whole, coding: "br"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen requests
			s := serve(t, seen.around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/a.git/.git/git-upload-pack" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				if test.coding != "" {
					w.Header().Set("Content-Encoding", test.coding)
				}
				_, err := io.WriteString(w, strings.ReplaceAll(test.answer, "SERVER", "http://"+r.Host))
				for n := 0; err == nil && test.more != "" && n < ends; n += len(test.more) {
					_, err = io.WriteString(w, test.more)
				}
			})))
			f, got := newFetcher(t), files{}
			f.Limits.Received = 1 << 20
			fetched, err := f.FetchURL(t.Context(), s.URL+"/a.git/.git?ref="+commit, got)
			byGit := slices.Contains(seen.asked(), first)
			switch {
			case test.taken && (err != nil || fetched != commit || got["n.tf"] != "file second\n" || len(got) != 1):
				t.Errorf("%q, error %v", got, err)
			case test.taken:
			case len(got) > 0:
				t.Errorf("%q was taken", got)
			case test.is == nil && (!byGit || !errors.Is(err, modproxy.ErrNotFound) &&
				!(errors.Is(err, modproxy.ErrInvalid) && strings.Contains(err.Error(), "a pack that git refuses"))):
				t.Errorf("error %v, git asked: %t", err, byGit)
			case test.is != nil && (!errors.Is(err, test.is) || !strings.HasSuffix(err.Error(), test.says) || byGit):
				t.Errorf("error %v, git asked: %t", err, byGit)
			}
			for _, r := range seen.all() {
				if strings.Contains(r.URL.Path, "elsewhere") {
					t.Error("a pack was asked for where the answer says")
				}
			}
			if left, _ := os.ReadDir(f.Dir); len(left) > 0 {
				t.Errorf("%s left behind", left)
			}
			if left := processesWith(t, f.Dir, "environ"); len(left) > 0 {
				t.Errorf("left running: %s", left)
			}
		})
	}
}

// If a submodule needs a credential, the error is about its own origin and names the submodule.
func TestSubmoduleWantsCredential(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	submodules(t, root)
	good := backend(t, root)
	var asked requests
	s := serveTLS(t, asked.around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/leaf.git") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		good.ServeHTTP(w, r)
	})))
	bothWays(t, s.caFile, func(t *testing.T, f *git.Getter) {
		f.Credentials = fetch.Credentials{credentialFor("https://other.example", secret)[0]}
		_, err := f.FetchURL(t.Context(), s.URL+"/super.git/.git", files{})
		if !errors.Is(err, modproxy.ErrDenied) ||
			!strings.Contains(err.Error(), `submodule "third_party/middle/inner/leaf"`) ||
			!strings.HasSuffix(err.Error(), "no credentials[] is for "+s.URL+")") {
			t.Errorf("error %v", err)
		}
	})
	for _, r := range asked.all() {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s %s has a credential", r.Method, r.URL)
		}
	}
}
