//go:build linux

package hostile_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// modulesHost is the host of own modules in the tests of this file and its neighbours.
const modulesHost = "own.test"

// own returns a configuration with own modules: each line is a namespace and the host of its forge. The repository of NAMESPACE/NAME/aws
// is /NAMESPACE/NAME.git there.
func own(rest string, lines ...string) string {
	var c strings.Builder
	c.WriteString("modules_host: " + modulesHost + "\nmodules:\n")
	for _, line := range lines {
		namespace, forge, _ := strings.Cut(line, " ")
		fmt.Fprintf(&c, "  - {address: \"%s/{name}/aws\", source: \"git::https://%s/%[1]s/{name}.git\"}\n", namespace, forge)
	}
	c.WriteString(`egress: {ca_file: CA}
fetch: {max_received: 64MiB, max_unpacked: 64MiB, max_files: 20000, timeout: 1m}
log: {level: debug}
shutdown: 5s
`)
	return c.String() + rest
}

// ownModule is an own module.
func ownModule(namespace, name string) module { return module{modulesHost, namespace, name, "aws"} }

// A forge serves repositories with commits and tags that a test changes, over protocol version 2. Its commits
// have the files a.tf and main.tf.
type forge struct {
	mu    sync.Mutex
	repos map[string]*repo // by path, such as /acme/vpc.git
	asked []string         // the paths of questions
	heads int              // questions that are not only about tags
	now   int              // requests in progress
	most  int              // the most requests in progress
	// refuse, if not nil, answers in place of the forge if it returns true.
	refuse func(w http.ResponseWriter, r *http.Request) bool
}

// repo is a repository of a forge. The forge's lock guards it.
type repo struct {
	tags    []tag
	commits map[string]*gitServer
	listed  func(*repo) // is called after each list of tags
}

type tag struct{ name, commit string }

func newForge(t testing.TB, host string) *forge {
	f := &forge{repos: map[string]*repo{}}
	strangerAt(t, host, f)
	return f
}

// commit adds a commit to a repository, and returns its id. The text is in its files a.tf and main.tf.
func (f *forge) commit(path, text string) string {
	g := &gitPack{}
	blob := g.add(packBlob, []byte(text))
	id := g.commit(g.tree([3]string{"100644", "a.tf", blob}, [3]string{"100644", "main.tf", blob}))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.repo(path).commits[id] = served(g, id)
	return id
}

// repo returns a repository, which it creates if it does not exist.
func (f *forge) repo(path string) *repo {
	if f.repos[path] == nil {
		f.repos[path] = &repo{commits: map[string]*gitServer{}}
	}
	return f.repos[path]
}

// tag sets tags of a repository to a commit.
func (f *forge) tag(path, commit string, names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		f.repo(path).set(name, commit)
	}
}

// set moves or adds a tag. An empty commit removes it.
func (r *repo) set(name, commit string) {
	for i, t := range r.tags {
		if t.name == name {
			r.tags = append(r.tags[:i:i], r.tags[i+1:]...)
			break
		}
	}
	if commit != "" {
		r.tags = append(r.tags, tag{name, commit})
	}
}

// enter counts a request until leave.
func (f *forge) enter(r *http.Request) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method == http.MethodPost {
		f.asked = append(f.asked, r.URL.Path)
	}
	f.now++
	f.most = max(f.most, f.now)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.now--
	}
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer f.enter(r)()
	if f.refuse != nil && f.refuse(w, r) {
		return
	}
	path, isQuestion := strings.CutSuffix(r.URL.Path, "/git-upload-pack")
	body, _ := io.ReadAll(r.Body)
	if isQuestion && bytes.Contains(body, []byte("command=ls-refs")) {
		f.list(w, path, body)
		return
	}
	path, isFirst := strings.CutSuffix(path, "/info/refs")
	f.mu.Lock()
	repo := f.repos[path]
	if repo != nil && isFirst { // of git
		defer f.mu.Unlock()
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		io.WriteString(w, line("# service=git-upload-pack\n")+"0000")
		io.WriteString(w, line("version 2\n")+line("ls-refs=unborn\n")+line("fetch=shallow\n")+line("object-format=sha1\n")+"0000")
		return
	}
	var found *gitServer
	if repo != nil && isQuestion {
		for id, server := range repo.commits {
			if bytes.Contains(body, []byte("want "+id)) {
				found = server
			}
		}
	}
	f.mu.Unlock()
	if found == nil {
		http.NotFound(w, r)
		return
	}
	found.second(w, body)
}

func (f *forge) list(w http.ResponseWriter, path string, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if bytes.Contains(body, []byte("ref-prefix refs/heads/")) {
		f.heads++
	}
	repo := f.repos[path]
	if repo == nil {
		http.NotFound(w, nil)
		return
	}
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	for _, t := range repo.tags {
		if prefixed(body, "refs/tags/"+t.name) {
			io.WriteString(w, line(t.commit+" refs/tags/"+t.name+"\n"))
		}
	}
	io.WriteString(w, "0000")
	if repo.listed != nil {
		repo.listed(repo)
	}
}

var refPrefix = regexp.MustCompile(`ref-prefix (\S*)`)

// prefixed reports whether a question asks for a ref.
func prefixed(question []byte, ref string) bool {
	all := refPrefix.FindAllSubmatch(question, -1)
	for _, prefix := range all {
		if strings.HasPrefix(ref, string(prefix[1])) {
			return true
		}
	}
	return len(all) == 0
}

// questions is the number of questions so far: for tags, and for commits.
func (f *forge) questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

// attempt is like verb, for verbs that may fail. It returns all that the verb prints.
func (p *proxy) attempt(args ...string) (string, error) {
	cmd := exec.Command(os.Getenv(rig.ProgramVariable), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "GORACE=atexit_sleep_ms=20"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
