package main_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

var updateShown = flag.Bool("update-shown", false, "write what the clients show into docs/reference/errors.md")

// shownStatuses are statuses of errors that a registry may return.
var shownStatuses = []int{400, 401, 403, 404, 409, 410, 421, 424, 429, 451, 500, 501, 502, 503, 504, 507}

// shownRequests are the requests of a client that installs one module, in order.
var shownRequests = []string{"versions", "download", "HEAD", "GET"}

const (
	shownFile  = "../../docs/reference/errors.md"
	shownBegin = "<!-- what follows is written by: go test ./cmd/modproxy -run TestWhatClientsShow -update-shown -->\n"
	shownEnd   = "<!-- until here -->\n"
)

// TestWhatClientsShow compares docs/reference/errors.md with the output of the real clients for each status, on each of their requests.
func TestWhatClientsShow(t *testing.T) {
	t.Parallel()
	clients := rig.Clients(t)
	if len(clients) < 2 {
		rig.Missing(t, "without Terraform or OpenTofu: %v", clients)
	}
	var made strings.Builder
	for _, name := range []string{"terraform", "tofu"} {
		made.WriteString(shownBy(t, name, clients[name]))
	}
	made.WriteString("\n")
	page, err := os.ReadFile(shownFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), shownBegin)
	written, after, ok2 := strings.Cut(rest, shownEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the tables", shownFile)
	}
	switch {
	case *updateShown:
		text := before + shownBegin + made.String() + shownEnd + after
		if err := os.WriteFile(shownFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	case written != made.String():
		t.Errorf("%s has\n%s\nand the clients show\n%s", shownFile, written, made.String())
	}
}

// shownBy makes the table of one client.
func shownBy(t *testing.T, name, program string) string {
	out, err := exec.Command(program, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	version := shownVersion.FindStringSubmatch(string(out))
	if version == nil {
		t.Fatalf("%s", out)
	}
	cells := map[string]map[int]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, request := range shownRequests {
		all.Go(func() {
			shown := showAll(t, program, request)
			mu.Lock()
			defer mu.Unlock()
			cells[request] = shown
		})
	}
	all.Wait()
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s %s prints:\n\n| status | `versions` | `download` | `HEAD` package | `GET` package |\n|---|---|---|---|---|\n", version[1], version[2])
	for _, status := range shownStatuses {
		fmt.Fprintf(&b, "| %d |", status)
		for _, request := range shownRequests {
			fmt.Fprintf(&b, " %s |", cells[request][status])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// shownVersion finds a client and its version in its output.
var shownVersion = regexp.MustCompile(`(?m)^(Terraform|OpenTofu) v(\d+\.\d+)`)

// showAll installs one module for each status with a client. All requests except one kind succeed. It returns the output for that kind.
func showAll(t *testing.T, program, request string) map[int]string {
	site := &failing{request: request, packed: onePackage(t), asked: map[string]int{}}
	server := httptest.NewServer(site)
	defer server.Close()
	dir := t.TempDir()
	var config strings.Builder
	for _, status := range shownStatuses {
		fmt.Fprintf(&config, "module \"m%d\" {\n  source  = \"registry.example.com/see/s%d/x\"\n  version = \"1.0.0\"\n}\n", status, status)
	}
	rc := filepath.Join(dir, "client.tfrc")
	for path, text := range map[string]string{
		filepath.Join(dir, "main.tf"): config.String(),
		rc:                            fmt.Sprintf("host \"registry.example.com\" {\n  services = { \"modules.v1\" = %q }\n}\n", server.URL+"/v1/modules/"),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	cmd := exec.Command(program, "-chdir="+dir, "get", "-no-color")
	cmd.Env = append(os.Environ(), "HOME="+dir, "TF_CLI_CONFIG_FILE="+rc, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1")
	out, _ := cmd.CombinedOutput() // the installation fails, or ignores the error
	text := strings.Join(strings.Fields(string(out)), " ")
	shown := map[int]string{}
	for _, status := range shownStatuses {
		var parts []string
		for _, part := range []struct{ what, text string }{
			{"number", strconv.Itoa(status) + " "}, {"phrase", site.phrase(status)}, {"body", site.body(status)},
		} {
			if strings.Contains(text, part.text) || part.what == "number" && strings.Contains(text, "code: "+strconv.Itoa(status)) {
				parts = append(parts, part.what)
			}
		}
		if len(parts) == 0 {
			parts = []string{"words of its own"}
			if _, err := os.Stat(filepath.Join(dir, ".terraform", "modules", fmt.Sprintf("m%d", status))); err == nil {
				parts = []string{"installs"}
			}
		}
		shown[status] = strings.Join(parts, ", ")
		switch n := site.count(status); n {
		case 0:
			t.Errorf("%s did not ask for %s of module m%d", program, request, status)
		case 1:
		default:
			shown[status] += fmt.Sprintf("; asks %d times", n)
		}
	}
	return shown
}

// failing is a registry that answers one kind of request with an error. The name of the module has the status.
type failing struct {
	request string
	packed  []byte
	mu      sync.Mutex
	asked   map[string]int
}

func (f *failing) phrase(status int) string { return fmt.Sprintf("phrase-%d", status) }
func (f *failing) body(status int) string   { return fmt.Sprintf("body-%d", status) }

func (f *failing) count(status int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[fmt.Sprintf("s%d", status)]
}

func (f *failing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/") // /v1/modules/see/NAME/x/…
	name, last := parts[4], parts[len(parts)-1]
	request := last
	if strings.HasSuffix(last, ".tar.gz") {
		request = r.Method
	}
	if request == f.request {
		f.mu.Lock()
		f.asked[name]++
		f.mu.Unlock()
		f.fail(w, r, name)
		return
	}
	switch request {
	case "versions":
		io.WriteString(w, `{"modules":[{"versions":[{"version":"1.0.0"}]}]}`)
	case "download":
		w.Header().Set("X-Terraform-Get", "http://"+r.Host+strings.TrimSuffix(r.URL.Path, "download")+"x.tar.gz")
		w.WriteHeader(http.StatusNoContent)
	default:
		http.ServeContent(w, r, "x.tar.gz", time.Time{}, bytes.NewReader(f.packed))
	}
}

func (f *failing) fail(w http.ResponseWriter, r *http.Request, name string) {
	status, _ := strconv.Atoi(name[1:])
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	body := f.body(status)
	fmt.Fprintf(rw, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", status, f.phrase(status), len(body))
	if r.Method != http.MethodHead {
		rw.WriteString(body)
	}
	rw.Flush()
}

// onePackage is a package with one empty file.
func onePackage(t *testing.T) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644}), w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
