//go:build linux

package hostile_test

import (
	"compress/zlib"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// atGit is a module in the repository of a git server.
func atGit(t testing.TB, g http.Handler) module {
	return module{located("git::https://" + stranger(t, g) + "/x.git?ref=v1").host(t), "case", "git", "aws"}
}

// goodPack has one commit with one file.
func goodPack() (*gitPack, string) {
	g := &gitPack{}
	blob := g.add(packBlob, []byte("# good\n"))
	return g, g.commit(g.tree([3]string{"100644", "main.tf", blob}))
}

// git accepts the fake git server.
func TestGitServerIsUnderstood(t *testing.T) {
	p := start(t, ordinary)
	p.run("good", func(t *testing.T) {
		m := atGit(t, served(goodPack()))
		same(t, "package", p.mustInstall(m, "1.0.0"), map[string]file{"main.tf": {"# good\n", false}})
	})
}

func TestGitIsLedNowhere(t *testing.T) {
	p := start(t, ordinary)
	answer := func(status int, name, value string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(name, value)
			w.WriteHeader(status)
		}
	}
	const refs = "/x.git/info/refs?service=git-upload-pack"
	tests := map[string]http.Handler{}
	for name, to := range map[string]string{
		"metadata": "https://169.254.169.254", "mapped": "https://[::ffff:a9fe:a9fe]", "name": "https://inside.evil.test",
		"plain": "http://src.test", "port": "https://src.test:8443", "loopback-port": "https://127.0.0.1:5432",
		"file": "file:///etc", "helper": "ext::sh -c id", "ssh": "ssh://git@10.0.0.5", "self": strings.Replace(p.url, "http:", "https:", 1),
	} {
		tests["refs-to-"+name] = &gitServer{refs: answer(302, "Location", to+refs)}
	}
	for name, to := range map[string]string{"metadata": "https://169.254.169.254", "name": "https://inside.evil.test", "plain": "http://src.test"} {
		upload := served(goodPack())
		upload.upload = answer(307, "Location", to+"/x.git/git-upload-pack")
		tests["pack-to-"+name] = upload
		twice := stranger(t, &gitServer{refs: answer(301, "Location", to+refs)})
		tests["second-to-"+name] = &gitServer{refs: answer(301, "Location", "https://"+twice+refs)}
	}
	tests["refs-to-no-repository"] = &gitServer{refs: answer(302, "Location", "https://169.254.169.254/latest/")}
	tests["refs-in-a-circle"] = &gitServer{refs: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) }}
	for i, challenge := range []string{
		`Basic realm="https://169.254.169.254/token"`, `Bearer realm="https://169.254.169.254/token",service="x"`,
		`Negotiate`, `NTLM`, `Digest realm="x", nonce="x", algorithm=MD5`,
	} {
		tests[fmt.Sprint("challenge-", i)] = &gitServer{refs: answer(401, "WWW-Authenticate", challenge)}
	}
	for name, g := range tests {
		p.run(name, func(t *testing.T) {
			before := len(world.strangers.at(""))
			p.refuse(t, atGit(t, g), "1.0.0", `not allowed|invalid|denied|redirect|unavailable`)
			asked := world.strangers.at("")[before:]
			for _, r := range asked {
				if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
					t.Errorf("a credential was sent: %v", r)
				}
			}
			if len(asked) > 20 {
				t.Errorf("asked %d times", len(asked))
			}
		})
	}
}

// bounded is ordinary with bounds that a bomb reaches soon. Its timeout suffices for honest work on a slow machine.
var bounded = strings.Replace(ordinary,
	"max_received: 64MiB, max_unpacked: 64MiB, max_files: 20000, timeout: 1m",
	"max_received: 8MiB, max_unpacked: 16MiB, max_files: 2000, timeout: 3m", 1)

// mostOfGit bounds the memory of one git process for a repository of 8 MiB, in MiB.
const mostOfGit = 384

func TestGitBombs(t *testing.T) {
	p := startOwn(t, strings.Replace(bounded, "timeout: 3m", "timeout: "+brief(t, 8*time.Second).String(), 1))
	tests := map[string]*gitServer{}

	_, commit := goodPack()
	tests["endless-pack"] = &gitServer{commit: commit, pack: func(w io.Writer) {
		w.Write([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"))
		w.Write(packHeader(packBlob, 1<<40))
		z, _ := zlib.NewWriterLevel(w, zlib.NoCompression)
		io.Copy(z, rand.Reader)
	}}
	tests["endless-progress"] = &gitServer{commit: commit, upload: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		endless(w, line("NAK\n"), line("NAK\n"))
	}}
	tests["endless-refs"] = &gitServer{refs: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		endless(w, line("# service=git-upload-pack\n")+"0000"+line(commit+" HEAD\x00shallow\n"), line(commit+" refs/heads/"+strings.Repeat("x", 200)+"\n"))
	}}
	tests["endless-garbage"] = &gitServer{refs: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		endless(w, "", "garbage")
	}}
	zeros := map[string]uint64{}
	if !shorter(t, "no objects of zeros") {
		zeros["zeros"], zeros["more-zeros"] = 480<<20, 10<<30
	}
	for name, size := range zeros {
		tests[name] = &gitServer{commit: commit, pack: func(w io.Writer) {
			w.Write([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"))
			w.Write(packHeader(packBlob, size))
			z := zlib.NewWriter(w)
			for left, some := size, make([]byte, 1<<20); left > 0; left -= uint64(len(some)) {
				if _, err := z.Write(some); err != nil {
					return
				}
			}
			z.Close()
		}}
	}
	tests["delta"] = deltaBomb()
	tests["tree"] = treeBomb()
	for name, g := range tests {
		p.run(name, func(t *testing.T) {
			world.arguments.mostGit()
			p.refuse(t, atGit(t, g), "1.0.0", `larger than|not done|more than|unavailable|invalid`)
			if mib := world.arguments.mostGit(); mib > mostOfGit {
				t.Errorf("git took %d MiB of memory; want at most %d", mib, mostOfGit)
			}
			if !eventually(func() bool { return len(processes()) == 0 }) {
				t.Errorf("left behind: %v", processes())
			}
		})
	}
}

// deltaBomb has a pack of some kilobytes with an object of 2 GiB.
func deltaBomb() *gitServer {
	g, commit := goodPack()
	base := make([]byte, 1<<20)
	g.addDelta(g.add(packBlob, base), copies(uint64(len(base)), 2<<30))
	return served(g, commit)
}

// treeBomb has a pack of some hundred bytes with a tree of 10^8 files.
func treeBomb() *gitServer {
	g := &gitPack{}
	id, mode := g.add(packBlob, []byte("# laughs\n")), "100644"
	for range 8 {
		var entries [][3]string
		for i := range 10 {
			entries = append(entries, [3]string{mode, fmt.Sprint(i), id})
		}
		id, mode = g.tree(entries...), "40000"
	}
	return served(g, g.commit(id))
}

// A pack that stalls is given up, and all git processes for it end.
func TestGitThatStalls(t *testing.T) {
	timeout := brief(t, 3*time.Second).String()
	p := startOwn(t, strings.Replace(bounded, "timeout: 3m", "timeout: "+timeout, 1))
	_, commit := goodPack()
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	stall := func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}
	for name, g := range map[string]*gitServer{
		"refs": {refs: stall},
		"pack": {commit: commit, upload: stall},
		"middle": {commit: commit, pack: func(w io.Writer) {
			w.Write([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"))
			w.(http.Flusher).Flush()
			<-over
		}},
	} {
		p.run(name, func(t *testing.T) {
			p.refuse(t, atGit(t, g), "1.0.0", "not done within "+timeout+"|not done after "+timeout)
			if !eventually(func() bool { return len(processes()) == 0 }) {
				t.Errorf("left behind: %v", processes())
			}
		})
	}
}
