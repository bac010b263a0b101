//go:build linux

package hostile_test

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// asking is a program that wants to know who asks. The paths of packages are good for
// one minute at least, which is the shortest that can be configured.
const asking = ordinary + "auth: {required: true, signed_paths: 1m}\n"

// verb runs another modproxy beside the one that serves, on its data directory, and
// returns what it prints.
func (p *proxy) verb(args ...string) string {
	p.t.Helper()
	cmd := exec.Command(os.Getenv(rig.ProgramVariable), append(args, "--data", p.data)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "GORACE=atexit_sleep_ms=20"}
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("modproxy %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// token makes a token, and returns the header that shows it.
func (p *proxy) token(name string, flags ...string) string {
	p.t.Helper()
	text := p.verb(append([]string{"token", "create", name}, flags...)...)
	if !strings.HasPrefix(text, "mp_") {
		p.t.Fatalf("the token is %q", text)
	}
	p.unwritten = append(p.unwritten, text, text[strings.LastIndexByte(text, '_')+1:])
	return "Bearer " + text
}

var inLocation = regexp.MustCompile(`/(s_[A-Za-z0-9_-]{20,})(/.*\.tar\.gz)`)

// signed is the path of a package that somebody is told: the segment, and what is
// behind it.
func (p *proxy) signed(t testing.TB, who string, m module, version string) (segment, path string) {
	t.Helper()
	a := p.ask(http.MethodGet, m.path(version+"/download"), "Authorization", who)
	parts := inLocation.FindStringSubmatch(a.Header.Get("X-Terraform-Get"))
	if a.Status != http.StatusNoContent || parts == nil {
		t.Fatalf("%v: %d %q %s", m, a.Status, a.Header.Get("X-Terraform-Get"), a.Said())
	}
	p.unwritten = append(p.unwritten, parts[1])
	return parts[1], parts[2]
}

// face is all of an answer that a client sees, but for the time.
func face(a rig.Answer) string {
	header := a.Header.Clone()
	header.Del("Date")
	var s strings.Builder
	s.WriteString(http.StatusText(a.Status) + "\n")
	header.Write(&s)
	s.Write(a.Body)
	return s.String()
}

// ownHost is what a refusal repeats of the host in the path of its own request.
var ownHost = regexp.MustCompile(`: set (TF_TOKEN_\w+|one in a credentials block for [^"]+)`)

// alike wants that answers cannot be told apart, but by the host that was asked about.
func alike(t testing.TB, what string, a, b rig.Answer) {
	t.Helper()
	for _, of := range []*rig.Answer{&a, &b} {
		if said := ownHost.ReplaceAll(of.Body, nil); len(said) < len(of.Body) {
			of.Body, of.Header = said, of.Header.Clone()
			of.Header.Set("Content-Length", strconv.Itoa(len(said)))
		}
	}
	if face(a) != face(b) {
		t.Errorf("%s:\n%s\nis not\n%s", what, face(a), face(b))
	}
}
