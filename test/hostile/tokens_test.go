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

// asking is a configuration with required tokens. Signed paths are valid for at least a minute, the shortest time that can be configured.
const asking = ordinary + "auth: {required: true, signed_paths: 1m}\n"

// verb runs another modproxy on the data directory of the serving one, and returns its output.
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

// token creates a token, and returns the header with it.
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

// signed returns the package path that a client receives: the segment, and the rest.
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

// face returns the parts of an answer that a client sees, without times.
func face(a rig.Answer) string {
	header := a.Header.Clone()
	header.Del("Date")
	var s strings.Builder
	s.WriteString(http.StatusText(a.Status) + "\n")
	header.Write(&s)
	s.Write(a.Body)
	return s.String()
}

// ownHost matches the host of the request's path in a refusal.
var ownHost = regexp.MustCompile(`: set (TF_TOKEN_\w+|one in a credentials block for [^"]+)`)

// alike checks that answers differ only in the host that was requested.
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
