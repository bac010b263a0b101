package git_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
)

// mirrored returns a table with f, in which to has mirrors of from. Both are of the form of ParseMirror, with URLs of servers in place of
// hosts.
func mirrored(t *testing.T, f *git.Getter, fromTo ...string) *fetch.Table {
	t.Helper()
	table := &fetch.Table{Getters: map[string]fetch.Getter{"git": f}, Scratch: t.TempDir()}
	for i := 0; i < len(fromTo); i += 2 {
		_, from, _ := strings.Cut(fromTo[i], "://")
		m, err := fetch.ParseMirror(from, fromTo[i+1])
		if err != nil {
			t.Fatal(err)
		}
		table.Mirrors = append(table.Mirrors, m)
	}
	return table
}

// A forge with a mirror receives no request, neither for a repository nor for its submodules. Relative URLs of submodules are relative to
// the repository that the location names.
func TestMirror(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var atForge, atThird, atMirror requests
	forge := serveTLS(t, atForge.around(http.NotFoundHandler()))
	third := serveTLS(t, atThird.around(backend(t, root)))
	mirror := serveTLS(t, atMirror.around(backend(t, root)))
	part := newAuthor(t, root, "mirrors/acme/part.git")
	part.write("part.tf", "")
	at := part.commit("part")
	elsewhere := newAuthor(t, root, "elsewhere/part.git")
	elsewhere.write("elsewhere.tf", "")
	atElsewhere := elsewhere.commit("elsewhere")
	outside := newAuthor(t, root, "outside.git")
	outside.write("outside.tf", "")
	atOutside := outside.commit("outside")
	a := newAuthor(t, root, "mirrors/acme/a.git")
	a.write("main.tf", "# v1")
	modules := ""
	for i, sub := range []struct{ url, commit string }{
		{"../../part.git/.git", at}, {forge.URL + "/acme/part.git/.git", at}, {"../../../other/part.git/.git", atElsewhere}, {third.URL + "/outside.git/.git", atOutside},
	} {
		modules += fmt.Sprintf("[submodule \"%d\"]\n\tpath = p%d\n\turl = %s\n", i, i, sub.url)
		a.submodule(fmt.Sprintf("p%d", i), sub.commit)
	}
	a.write(".gitmodules", modules)
	commit := a.commit("a")
	a.git("tag", "v1.0.0")

	bothWays(t, mirror.caFile, func(t *testing.T, f *git.Getter) {
		table := mirrored(t, f, forge.URL+"/acme/*", mirror.URL+"/mirrors/acme/*", forge.URL+"/other/*", mirror.URL+"/elsewhere/*")
		s := sourceAt(forge.URL + "/acme/a.git/.git?ref=v1.0.0")
		if err := table.Check(t.Context(), s); err != nil {
			t.Error(err)
		}
		if got, err := table.Commit(t.Context(), s); err != nil || got != commit {
			t.Errorf("commit %q, error %v", got, err)
		}
		if tags, err := table.Tags(t.Context(), s, "v"); err != nil || len(tags) != 1 || tags[0].Commit != commit {
			t.Errorf("tags %v, error %v", tags, err)
		}
		p, err := table.Package(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		want := modproxy.Source{URL: forge.URL + "/acme/a.git/.git", Commit: commit, Mirror: mirror.URL + "/mirrors/acme/a.git/.git"}
		if p.Source != want {
			t.Errorf("source %+v, want %+v", p.Source, want)
		}
	})
	if n := len(atForge.all()); n > 0 {
		t.Errorf("%d requests to the forge", n)
	}
	for _, r := range atThird.all() {
		if !strings.HasPrefix(r.URL.Path, "/outside.git/") {
			t.Errorf("%s was requested elsewhere than at its mirror", r.URL)
		}
	}
	if len(atThird.all()) == 0 {
		t.Error("the submodule without a mirror was not requested")
	}
}

// Content that the mirror does not have is an error that names the mirror. The forge has it, and receives no request.
func TestMirrorLacks(t *testing.T) {
	t.Parallel()
	atForge, atMirror := t.TempDir(), t.TempDir()
	var asked requests
	forge, mirror := serveTLS(t, asked.around(backend(t, atForge))), serveTLS(t, backend(t, atMirror))
	a := history(t, atForge, "acme/a.git")
	b := newAuthor(t, atMirror, "acme/a.git")
	b.commit("behind")
	newer := a.git("rev-parse", "main")
	for _, name := range []string{"sub", "more"} {
		sup := newAuthor(t, atMirror, "acme/"+name+".git")
		sup.write(".gitmodules", "[submodule \"a\"]\n\tpath = a\n\turl = "+forge.URL+map[string]string{"sub": "/acme/a.git/.git\n", "more": "/acme/%2e%2e/secret.git\n"}[name])
		sup.submodule("a", newer)
		sup.commit(name)
	}
	bothWays(t, mirror.caFile, func(t *testing.T, f *git.Getter) {
		table := mirrored(t, f, forge.URL+"/acme/*", mirror.URL+"/acme/*")
		for path, c := range map[string]struct {
			is   error
			says string
		}{
			"/acme/a.git/.git?ref=v1.0.0":   {modproxy.ErrNotFound, "git fetch " + mirror.URL + "/acme/a.git/.git ref v1.0.0: not found: no such ref"},
			"/acme/a.git/.git?ref=" + newer: {modproxy.ErrNotFound, mirror.URL + "/acme/a.git/.git ref " + newer + ": not found: no such commit"},
			"/acme/none.git?ref=" + newer:   {modproxy.ErrNotFound, mirror.URL + "/acme/none.git ref " + newer + ": not found: no such repository"},
			"/acme/sub.git/.git":            {modproxy.ErrNotFound, `submodule "a": ` + mirror.URL + "/acme/a.git/.git commit " + newer + ": not found: no such commit"},
			"/acme/more.git/.git":           {modproxy.ErrInvalid, `submodule "a": invalid`},
			"/acme/../x":                    {modproxy.ErrInvalid, "want a path"},
		} {
			_, err := table.Package(t.Context(), sourceAt(forge.URL+path))
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "sources[]") && c.is == modproxy.ErrNotFound {
				t.Errorf("%s: error %v", path, err)
			}
			if c.is == modproxy.ErrNotFound && !strings.Contains(err.Error(), "names this mirror of "+forge.URL+"/acme/") {
				t.Errorf("%s: the error does not name the forge: %v", path, err)
			}
		}
		if _, err := table.Commit(t.Context(), sourceAt(forge.URL+"/acme/a.git/.git?ref=v1.0.0")); !errors.Is(err, modproxy.ErrNotFound) ||
			!strings.Contains(err.Error(), mirror.URL) {
			t.Errorf("commit: error %v", err)
		}
	})
	if n := len(asked.all()); n > 0 {
		t.Errorf("%d requests to the forge", n)
	}
}

// A mirror does not lead back to the forge by a redirect, and neither does another host. A redirect within a host is followed.
func TestMirrorRedirects(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var asked requests
	forge := serveTLS(t, asked.around(backend(t, root)))
	home := backend(t, root)
	mirror := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rest, ok := strings.CutPrefix(r.URL.Path, "/acme/away.git/"); ok {
			http.Redirect(w, r, forge.URL+"/acme/a.git/"+rest+"?"+r.URL.RawQuery, http.StatusFound)
		} else if rest, ok := strings.CutPrefix(r.URL.Path, "/acme/old.git/"); ok {
			http.Redirect(w, r, "/acme/a.git/"+rest+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
		} else {
			home.ServeHTTP(w, r)
		}
	}))
	history(t, root, "acme/a.git")
	bothWays(t, mirror.caFile, func(t *testing.T, f *git.Getter) {
		table := mirrored(t, f, forge.URL+"/acme/*", mirror.URL+"/acme/*")
		for _, url := range []string{forge.URL + "/acme/away.git/.git", mirror.URL + "/acme/away.git/.git"} {
			_, err := table.Package(t.Context(), sourceAt(url))
			if !errors.Is(err, modproxy.ErrDenied) || !strings.Contains(err.Error(), "redirected to "+forge.URL+"/acme/a.git/.git, which is replaced by its mirror") {
				t.Errorf("%s: error %v", url, err)
			}
		}
		p, err := table.Package(t.Context(), sourceAt(forge.URL+"/acme/old.git/.git"))
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
	})
	if n := len(asked.all()); n > 0 {
		t.Errorf("%d requests to the forge", n)
	}
}

// The mirror receives its own credential, if the module may use it, and no other: not that of the forge, and not one in the location.
func TestMirrorCredential(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	history(t, root, "acme/a.git")
	var shown requests
	mirror := serveTLS(t, shown.around(locked(t, backend(t, root))))
	const forge = "https://forge.example"
	bothWays(t, mirror.caFile, func(t *testing.T, f *git.Getter) {
		table := mirrored(t, f, forge+"/acme/*", mirror.URL+"/acme/*")
		s := sourceAt("https://" + secret + "@forge.example/acme/a.git/.git")
		f.Credentials = credentialFor(forge, secret)
		_, err := table.Package(t.Context(), s)
		if !errors.Is(err, modproxy.ErrDenied) || !strings.Contains(err.Error(), "no credentials[] is for "+mirror.URL) || strings.Contains(err.Error(), secret) {
			t.Errorf("error %v", err)
		}
		for _, r := range shown.all() {
			if r.Header.Get("Authorization") != "" {
				t.Errorf("%s %s has a credential of the forge", r.Method, r.URL)
			}
		}
		f.Credentials = credentialFor(mirror.URL, secret)
		f.Credentials[0].Scope = only("registry.acme.example")
		if _, err = table.Package(t.Context(), s); !errors.Is(err, modproxy.ErrDenied) {
			t.Errorf("outside of its scope: error %v", err)
		}
		s.Module.Host = "registry.acme.example"
		p, err := table.Package(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		shown.mu.Lock()
		shown.seen = nil
		shown.mu.Unlock()
	})
}

// only is a scope: the modules of one host.
type only string

func (o only) Covers(m modproxy.Address) bool { return m.Host == string(o) }

// The limits of egress are those of the mirror. A location cannot leave the directory of the mirrors.
func TestMirrorWithinEgress(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	secrets := history(t, root, "secret.git")
	var asked requests
	mirror := serveTLS(t, asked.around(backend(t, root)))
	bothWays(t, mirror.caFile, func(t *testing.T, f *git.Getter) {
		inward := mirrored(t, f, "https://github.com/acme/*", "https://127.0.0.77/*")
		network := f.Network.(*network)
		network.check = network.Client.Check
		s := sourceAt("https://github.com/acme/a.git")
		for _, err := range []error{inward.Check(t.Context(), s), second(inward.Commit(t.Context(), s)), second(inward.Package(t.Context(), s))} {
			if !errors.Is(err, modproxy.ErrDenied) || !strings.Contains(err.Error(), "127.0.0.77") || !strings.Contains(err.Error(), "egress.allow") {
				t.Errorf("error %v", err)
			}
		}
		network.check = nil
		table := mirrored(t, f, "https://github.com/acme/*", mirror.URL+"/mirrors/acme/*")
		for _, path := range []string{"../../secret.git/.git", "%2e%2e/%2e%2e/secret.git/.git", "..%2f..%2fsecret.git/.git", "/../secret.git/.git", `..\..\secret.git/.git`} {
			_, err := table.Package(t.Context(), sourceAt("https://github.com/acme/"+path+"?ref="+secrets.git("rev-parse", "main")))
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Errorf("%s: error %v", path, err)
			}
		}
	})
	if n := len(asked.all()); n > 0 {
		t.Errorf("%d requests", n)
	}
}

func second[T any](_ T, err error) error { return err }

// A mirror over ssh has the repositories that locations name over https.
func TestMirrorOverSSH(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := serveSSH(t)
	a := history(t, root, "a.git")
	f := s.fetcher(t, s.ClientKey, "[git.test]:2222 "+s.HostKey)
	table := mirrored(t, f, "https://github.com/acme/*", "ssh://"+s.User+"@git.test:2222"+root+"/*")
	for _, location := range []string{"https://github.com/acme/a.git/.git?ref=v1.0.0", "ssh://git@github.com/acme/a.git/.git?ref=v1.0.0"} {
		p, err := table.Package(t.Context(), sourceAt(location))
		if err != nil {
			t.Fatalf("%v\n%s", err, s.Logged())
		}
		p.Close()
		before, _, _ := strings.Cut(location, "?")
		want := modproxy.Source{URL: strings.Replace(before, "git@", "", 1), Commit: a.git("rev-parse", "v1.0.0^{}"), Mirror: "ssh://git.test:2222" + a.dir + "/.git"}
		if p.Source != want {
			t.Errorf("%+v, want %+v", p.Source, want)
		}
	}
}
