//go:build linux

package hostile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// lists is a server whose repositories have lists of tags that the test writes.
type lists struct {
	direct, old bool // answers in protocol version 2 or in version 0
	write       map[string]func(w io.Writer, first string)
}

func (l *lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, isQuestion := strings.CutSuffix(r.URL.Path, "/git-upload-pack")
	if !isQuestion {
		path, _ = strings.CutSuffix(r.URL.Path, "/info/refs")
	}
	write := l.write[strings.TrimSuffix(path[strings.LastIndexByte(path, '/')+1:], ".git")]
	switch {
	case write == nil:
		http.NotFound(w, r)
	case isQuestion && l.direct:
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		write(w, "")
	case !isQuestion && l.old:
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		io.WriteString(w, line("# service=git-upload-pack\n")+"0000")
		write(w, "\x00agent=x")
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// refs returns a writer of a list. In its lines, A and B are ids of commits.
func refs(lines ...string) func(io.Writer, string) {
	ids := strings.NewReplacer("A ", strings.Repeat("a", 40)+" ", "B ", strings.Repeat("b", 40)+" ", "peeled:B", "peeled:"+strings.Repeat("b", 40))
	return func(w io.Writer, first string) {
		for _, text := range lines {
			io.WriteString(w, line(ids.Replace(text)+first+"\n"))
			first = ""
		}
		io.WriteString(w, "0000")
	}
}

func verbatim(text string) func(io.Writer, string) {
	return func(w io.Writer, _ string) { io.WriteString(w, text) }
}

func tagsNamed(names ...string) (all []string) {
	for _, name := range names {
		all = append(all, "A refs/tags/"+name)
	}
	return all
}

const (
	failed  = "failed"  // the list is refused
	nothing = "nothing" // no version: 404
)

// A hostile list of tags names exactly its canonical versions, or it is an error. It is never cut off.
func TestHostileListsOfTags(t *testing.T) {
	many := make([]string, 50_001)
	for i := range many {
		many[i] = fmt.Sprintf("A refs/tags/v0.0.%d", i)
	}
	others := tagsNamed("v1.0.0")
	for i := range 3000 {
		others = append(others, fmt.Sprintf("A refs/heads/v2.0.%d", i), fmt.Sprintf("A refs/pull/%d/head", i))
	}
	both := map[string]struct { // in both versions of the protocol
		write func(io.Writer, string)
		want  string // the versions, failed, or nothing
	}{
		"good":      {refs(tagsNamed("v1.0.0", "1.1.0", "v2.0.0-rc.1")...), "1.0.0 1.1.0 2.0.0-rc.1"},
		"too-many":  {refs(many...), failed},
		"ignores":   {refs(others...), "1.0.0"},
		"long":      {refs(tagsNamed("v1.0.0", "v2.0.0-"+strings.Repeat("a", 60_000), "v2.0.0-"+strings.Repeat("a", 250), "v2."+strings.Repeat("0", 300)+".0")...), "1.0.0"},
		"longest":   {refs(tagsNamed("v1.0.0-" + strings.Repeat("a", 249))...), "1.0.0-" + strings.Repeat("a", 249)},
		"escapes":   {refs(tagsNamed("v1.0.0", "v2.0.0\x1b[2J", "\x1b]0;v4.0.0\x07", "v5.0.0\u202e", "v6.0.0\u200b", "v7.0.0\xff", "v8.0.0\"", "v9.0.0<b>")...), "1.0.0"},
		"outside":   {refs("A refs/tags/v1.0.0", "A refs/tags/../heads/v2.0.0", "A refs/tags//v3.0.0", "A refs/heads/v4.0.0", "A refs/tags/refs/tags/v5.0.0", "A refs/tags/./v6.0.0", "A v7.0.0", "A refs/tags/..%2fv8.0.0"), "1.0.0"},
		"spellings": {refs(tagsNamed("v01.2.3", "1.2", "v1", "v1.2.3+meta", "1.2.3-rc.1", "v\uff11.0.0", "v1.0.\u0663", "V2.0.0", "vv2.0.0", "v-2.0.0", "v2.0.0-", "v2.0.0-rc1-", "v99999999999999999999.0.0", "v2.0.0.", "v2.0.0-01", "latest", "v")...), "1.2.3-rc.1 1.2.3+meta 2.0.0-01 2.0.0-rc1-"},
		"twice":     {refs("A refs/tags/v1.0.0", "B refs/tags/v1.0.0"), failed},
		"repeated":  {refs("A refs/tags/v1.0.0", "A refs/tags/v1.0.0"), "1.0.0"},
		"both":      {refs("A refs/tags/v1.0.0", "B refs/tags/1.0.0"), "1.0.0"},
		"peeled":    {refs("A refs/tags/v1.0.0^{}", "A refs/tags/v2.0.0"), "2.0.0"},
		"one-id":    {refs("A refs/tags/v1.0.0", "A refs/tags/v1.0.0^{}", "B refs/tags/v1.0.0^{}"), failed},
		"ids":       {refs("A refs/tags/v1.0.0", strings.Repeat("c", 64)+" refs/tags/v2.0.0"), failed},
		"empty":     {refs("A refs/heads/main"), nothing},
		"wrong":     {verbatim("zzzz"), failed},
		"too-long":  {verbatim("ffff" + strings.Repeat("a", 100)), failed},
		"too-short": {verbatim("0003"), failed},
		"cut-off":   {verbatim(line(strings.Repeat("a", 40) + " refs/tags/v1.0.0\n")), failed},
		"half":      {verbatim("0040" + strings.Repeat("a", 40)), failed},
		"error":     {verbatim(line("ERR \x1b[2Jgo away\r\n")), failed},
		"endless": {func(w io.Writer, first string) {
			endless(w, line(strings.Repeat("a", 40)+" HEAD"+first+"\n"), line(strings.Repeat("a", 40)+" refs/tags/v0.0.1\n"))
		}, failed},
		"oversized": {func(w io.Writer, first string) {
			endless(w, line(strings.Repeat("a", 40)+" HEAD"+first+"\n"), line(strings.Repeat("a", 40)+" refs/heads/"+strings.Repeat("x", 60_000)+"\n"))
		}, failed},
	}
	const directHost, oldHost = "lists.evil.test", "lists0.evil.test"
	direct := &lists{direct: true, write: map[string]func(io.Writer, string){}}
	old := &lists{old: true, write: map[string]func(io.Writer, string){}}
	for name, test := range both {
		direct.write[name], old.write[name] = test.write, test.write
	}
	for name, lines := range map[string][]string{
		"new-lines": {"A refs/tags/v1.0.0", "A refs/tags/v2.0.0\nA refs/tags/v3.0.0"}, // in one line of the protocol
		"zero":      {"A refs/tags/v1.0.0", "A refs/tags/v2.0.0\x00"},
		"returns":   tagsNamed("v1.0.0", "v2.0.0\r"),
		"attribute": {"A refs/tags/v1.0.0 symref-target:refs/tags/v2.0.0"},
	} {
		direct.write[name] = refs(lines...)
	}
	strangerAt(t, directHost, direct)
	strangerAt(t, oldHost, old)
	p := startOwn(t, own("", "direct "+directHost, "old "+oldHost))
	check := func(namespace, name, want string) {
		p.run(namespace+"-"+name, func(t *testing.T) {
			m := ownModule(namespace, name)
			var a rig.Answer
			if want == failed {
				a = p.ask(http.MethodGet, m.path("versions"))
			} else { // the forge may count as down after other cases
				a = p.asClient(m.path("versions"))
			}
			got := strings.Join(listed(a), " ")
			switch {
			case want == nothing:
				if a.Status != http.StatusNotFound {
					t.Errorf("%d %s; want 404", a.Status, a.Said())
				}
			case want == failed:
				if a.Status < 400 || a.Status == http.StatusNotFound || a.Status == http.StatusInternalServerError {
					t.Errorf("%d %.300s; want an error", a.Status, a.Said())
				}
			case a.Status != http.StatusOK || got != want:
				t.Errorf("%d %.300s: versions %.300q, want %.300q", a.Status, a.Said(), got, want)
			}
			if strings.ContainsFunc(a.Said(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r == 0x202e }) {
				t.Errorf("control characters in %.300q", a.Said())
			}
		})
	}
	few := shorter(t, "some lists in version 2 only, and some not at all")
	for name, test := range both {
		switch {
		case few && slices.Contains([]string{"ids", "wrong", "too-long", "too-short", "half", "ignores", "repeated"}, name):
			continue // tests of package fetch/git have them
		case !few || slices.Contains([]string{"good", "twice", "outside", "escapes"}, name):
			check("old", name, test.want)
		}
		check("direct", name, test.want)
	}
	check("direct", "new-lines", "1.0.0")
	check("direct", "returns", "1.0.0")
	check("direct", "zero", "1.0.0")
	check("direct", "attribute", "1.0.0")
	p.run("terminal", func(t *testing.T) {
		for _, args := range [][]string{
			{"refresh", ownModule("direct", "error").address()}, {"refresh", ownModule("old", "error").address()},
			{"refresh", ownModule("direct", "escapes").address()}, {"status", "--json"}, {"ls", "--json"},
		} {
			p.count(1)
			out, _ := p.attempt(append(args, "--data", p.data)...)
			if strings.ContainsAny(out, "\x1b\r\x07") || strings.Contains(out, "\u202e") {
				t.Errorf("modproxy %q prints %q", args, out)
			}
		}
	})
	if bytes.ContainsAny(p.log(), "\x1b\r\x07") {
		t.Error("the log has control characters")
	}
}

// listed returns the versions in an answer.
func listed(a rig.Answer) (all []string) {
	var document struct {
		Modules []struct{ Versions []struct{ Version string } }
	}
	if err := json.Unmarshal(a.Body, &document); err != nil || len(document.Modules) != 1 {
		return nil
	}
	for _, v := range document.Modules[0].Versions {
		all = append(all, v.Version)
	}
	return all
}

// Lists that come slowly or never end are given up. Modules of other forges are not affected.
func TestListsOfTagsThatStall(t *testing.T) {
	timeout := brief(t, 3*time.Second).String()
	const goodHost = "prompt.evil.test"
	good := newForge(t, goodHost)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	stall := func(w io.Writer, until time.Duration) {
		w.(http.Flusher).Flush()
		select {
		case <-over:
		case <-time.After(until):
		}
	}
	cases := map[string]func(io.Writer, string){
		"silent": func(w io.Writer, _ string) { stall(w, time.Hour) },
		"begun": func(w io.Writer, first string) {
			io.WriteString(w, line(strings.Repeat("a", 40)+" refs/tags/v1.0.0"+first+"\n"))
			stall(w, time.Hour)
		},
		"drip": func(w io.Writer, first string) {
			for i := 0; ; i++ {
				if _, err := io.WriteString(w, line(fmt.Sprintf("%s refs/tags/v0.0.%d%s\n", strings.Repeat("a", 40), i, first))); err != nil {
					return
				}
				first = ""
				select {
				case <-over:
					return
				default:
					stall(w, 300*time.Millisecond)
				}
			}
		},
	}
	lines := []string{"good " + goodHost}
	for i := range 8 {
		path := fmt.Sprintf("/good/m%d.git", i)
		good.tag(path, good.commit(path, "# good\n"), "v1.0.0")
	}
	for name, write := range cases {
		for _, old := range []bool{false, true} {
			if old && shorter(t, "stalling in version 2 only") {
				continue
			}
			host := fmt.Sprintf("%s-%v.evil.test", name, old)
			strangerAt(t, host, &lists{direct: !old, old: old, write: map[string]func(io.Writer, string){"m": write}})
			lines = append(lines, fmt.Sprintf("%s-%v %s", name, old, host))
		}
	}
	p := startOwn(t, strings.Replace(own("", lines...), "timeout: 1m", "timeout: "+timeout, 1))
	p.run("all", func(t *testing.T) {
		var group sync.WaitGroup
		for _, text := range lines[1:] {
			namespace, _, _ := strings.Cut(text, " ")
			group.Go(func() {
				if a := p.ask(http.MethodGet, ownModule(namespace, "m").path("versions")); a.Status < 424 || a.Status == http.StatusInternalServerError {
					t.Errorf("%s: %d %s", namespace, a.Status, a.Said())
				}
			})
		}
		for i := range 8 {
			m := ownModule("good", fmt.Sprint("m", i))
			if a := p.asClient(m.path("versions")); !slices.Equal(listed(a), []string{"1.0.0"}) {
				t.Errorf("another forge: %d %s", a.Status, a.Said())
			}
			p.mustInstall(m, "1.0.0")
		}
		group.Wait()
	})
	if !eventually(func() bool { return len(processes()) == 0 }) {
		t.Errorf("left behind: %v", processes())
	}
}

// A tag of a tree or a blob is listed, because only its content shows what it is. It cannot be installed, and leaves no record.
func TestTagsOfNoCommits(t *testing.T) {
	const host, path = "trees.evil.test", "/acme/vpc.git"
	g := &gitPack{}
	blob := g.add(packBlob, []byte("# good\n"))
	tree := g.tree([3]string{"100644", "main.tf", blob})
	commit := g.commit(tree)
	server := served(g, commit)
	f := newForge(t, host)
	f.mu.Lock()
	for name, id := range map[string]string{"v1.0.0": commit, "v2.0.0": tree, "v3.0.0": blob} {
		f.repo(path).set(name, id)
		f.repo(path).commits[id] = &gitServer{commit: id, pack: server.pack}
	}
	f.mu.Unlock()
	p := startOwn(t, own("", "acme "+host))
	m := ownModule("acme", "vpc")
	p.run("install", func(t *testing.T) {
		for _, version := range []string{"2.0.0", "3.0.0"} {
			p.refuse(t, m, version, "not a commit")
		}
		same(t, "a commit", p.mustInstall(m, "1.0.0"), map[string]file{"main.tf": {"# good\n", false}})
	})
	if out := p.verb("ledger", "show"); strings.Count(out, "\n") > 0 || !strings.Contains(out, " 1.0.0 ") {
		t.Errorf("records:\n%s", out)
	}
}
