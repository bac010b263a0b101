package main_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy/registrytest"
)

// treeFile is what sametree compares of one file.
type treeFile struct {
	data string
	mode fs.FileMode // the owner's permissions
}

// readTree reads the files below dir, links as what they point to, without .git.
func readTree(dir string) (map[string]treeFile, error) {
	files := map[string]treeFile{}
	return files, walkTree(dir, "", files)
}

func walkTree(root, rel string, files map[string]treeFile) error {
	entries, err := os.ReadDir(filepath.Join(root, rel))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(rel, e.Name())
		info, err := os.Stat(filepath.Join(root, name))
		switch {
		case err != nil:
			return err
		case e.Name() == ".git":
		case info.IsDir():
			if err := walkTree(root, name, files); err != nil {
				return err
			}
		default:
			data, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				return err
			}
			files[name] = treeFile{string(data), info.Mode().Perm() & 0o700}
		}
	}
	return nil
}

func sametree(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: sametree A B")
	}
	a, err := readTree(ts.MkAbs(args[0]))
	ts.Check(err)
	b, err := readTree(ts.MkAbs(args[1]))
	ts.Check(err)
	if len(a) == 0 {
		ts.Fatalf("%s has no files", args[0])
	}
	differences := 0
	differ := func(format string, args ...any) {
		differences++
		if !neg {
			ts.Logf(format, args...)
		}
	}
	for name, file := range a {
		other, ok := b[name]
		switch {
		case !ok:
			differ("%s is only in %s", name, args[0])
		case other.data != file.data:
			differ("%s has other contents:\n%s: %q\n%s: %q", name, args[0], file.data, args[1], other.data)
		case other.mode != file.mode:
			differ("%s: mode %v in %s, %v in %s", name, file.mode, args[0], other.mode, args[1])
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			differ("%s is only in %s", name, args[1])
		}
	}
	if differences > 0 != neg {
		ts.Fatalf("%d differences between %s and %s", differences, args[0], args[1])
	}
}

// tree prints the names of the files in a tree, executables with a star.
func tree(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: tree DIR")
	}
	files, err := readTree(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if files[name].mode&0o100 != 0 {
			name += "*"
		}
		fmt.Fprintln(ts.Stdout(), name)
	}
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	header, output, times := http.Header{}, "", 1
	for len(args) > 2 {
		switch args[0] {
		case "-H":
			name, value, _ := strings.Cut(args[1], ":")
			header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		case "-o":
			output = args[1]
		case "-n":
			n, err := strconv.Atoi(args[1])
			ts.Check(err)
			times = n
		default:
			ts.Fatalf("get: no flag %q", args[0])
		}
		args = args[2:]
	}
	w := worldOf(ts)
	if len(args) == 2 && args[1] == "&" {
		w.asked = askBeside(args[0], header)
		return
	}
	if len(args) != 1 {
		ts.Fatalf("usage: get [-n TIMES] [-H 'NAME: VALUE'] [-o FILE] URL [&], or get -wait")
	}
	if args[0] == "-wait" {
		check(ts, neg, <-w.asked)
		return
	}
	body, err := sendAll(ts, times, args[0], header, output == "")
	if output != "" && err == nil {
		ts.Check(os.WriteFile(ts.MkAbs(output), body, 0o600))
	}
	check(ts, neg, err)
}

// askBeside asks in the background. It returns when the request is on its way; what
// becomes of it, its result gives.
func askBeside(url string, header http.Header) <-chan error {
	sent, done := make(chan struct{}), make(chan error, 1)
	go func() {
		trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), "GET", url, nil)
		if err != nil {
			done <- err
			return
		}
		r.Header, r.Host = header, header.Get("Host")
		answer, _, err := send(r)
		if err == nil && answer.StatusCode >= 400 {
			err = fmt.Errorf("GET %s: %s", url, answer.Status)
		}
		done <- err
	}()
	select {
	case <-sent:
	case err := <-done:
		done <- err
	}
	return done
}

// sendAll asks the same so often at the same time, wants the same body every time,
// and prints one answer.
func sendAll(ts *testscript.TestScript, times int, url string, header http.Header, printBody bool) ([]byte, error) {
	answers, bodies := make([]*http.Response, times), make([][]byte, times)
	var group errgroup.Group
	for i := range times {
		group.Go(func() error {
			r, err := http.NewRequest("GET", url, nil)
			if err != nil {
				return err
			}
			r.Header, r.Host = header, header.Get("Host")
			answers[i], bodies[i], err = send(r)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	answer, body := answers[0], bodies[0]
	fmt.Fprintf(ts.Stdout(), "%s\n", answer.Status)
	for _, name := range slices.Sorted(maps.Keys(answer.Header)) {
		fmt.Fprintf(ts.Stdout(), "%s: %s\n", name, strings.Join(answer.Header[name], ", "))
	}
	if printBody {
		fmt.Fprintf(ts.Stdout(), "\n%s\n", body)
	}
	for i := range times {
		if answers[i].StatusCode >= 400 {
			return nil, fmt.Errorf("GET %s: %s %s", url, answers[i].Status, bytes.TrimSpace(bodies[i]))
		}
		if !bytes.Equal(bodies[i], body) {
			return nil, fmt.Errorf("GET %s: answers with different bodies", url)
		}
	}
	return body, nil
}

// send makes one request, follows no redirect and trusts the test authority.
func send(r *http.Request) (*http.Response, []byte, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(registrytest.CA().PEM)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableCompression: true, DisableKeepAlives: true}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, body, err
}

func expand(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		data := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(data), 0o666))
	}
}
