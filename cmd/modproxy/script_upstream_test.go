package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/modproxy/modproxy/egress/egresstest"
	"github.com/modproxy/modproxy/test/registrytest"
)

func runUpstream(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if len(args) < 2 || neg {
		ts.Fatalf("usage: upstream NAME start|load|move|annotate|delete|set|down|up …")
	}
	name, verb, args := args[0], args[1], args[2:]
	if verb == "start" {
		ts.Check(w.start(ts, name, args))
		return
	}
	u := w.upstreams[name]
	if u == nil {
		ts.Fatalf("no upstream %q is started", name)
	}
	switch verb {
	case "load":
		ts.Check(u.Load(ts.MkAbs(args[0])))
	case "move":
		ts.Check(u.Move(args[0], args[1], args[2]))
	case "annotate":
		ts.Check(u.Annotate(args[0], args[1], args[2]))
	case "delete":
		ts.Check(u.Delete(args[0], args[1]))
	case "set":
		ts.Check(turn(u, args))
	case "down":
		u.Down()
	case "up":
		ts.Check(u.Up())
	default:
		ts.Fatalf("upstream: no verb %q", verb)
	}
}

// start gives every upstream of a script its own address.
func (w *world) start(ts *testscript.TestScript, name string, args []string) error {
	addr := fmt.Sprintf("127.0.0.%d:0", 2+len(w.upstreams))
	u, err := registrytest.Start(ts.MkAbs(args[0]), registrytest.Options{
		Addr: addr, Names: []string{"registry.terraform.io", "registry.opentofu.org"},
	})
	if err != nil {
		return err
	}
	w.upstreams[name] = u
	ts.Setenv(strings.ToUpper(name)+"_URL", u.URL)
	ts.Setenv(strings.ToUpper(name)+"_HOST", u.Host)
	if err := turn(u, args[1:]); err != nil {
		return err
	}
	return w.writeConfigs()
}

// runInternet sets the proxies in the environments of the client and, unless the proxies lead to it, of modproxy. Neither uses them for
// addresses of this machine.
func runInternet(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if neg || len(args) != 1 || args[0] != "proxy" && w.upstreams[args[0]] == nil {
		ts.Fatalf("usage: internet NAME, of an upstream that was started, or internet proxy")
	}
	to := ts.Getenv("PROXY_HOST")
	if u := w.upstreams[args[0]]; u != nil {
		to = u.Host
	}
	site := httptest.NewServer(&egresstest.Proxy{Dial: func(string) (net.Conn, error) { return net.Dial("tcp", to) }})
	ts.Defer(site.Close)
	ts.Setenv("HTTPS_PROXY", site.URL)
	if args[0] != "proxy" {
		w.env = append(w.env, "HTTPS_PROXY="+site.URL)
	}
}

// turn reads KNOB=VALUE and KIND.KNOB=VALUE. The knobs of a kind that one line
// names are turned together.
func turn(u *registrytest.Upstream, settings []string) error {
	knobs := map[registrytest.Kind]*registrytest.Knobs{}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		kind, knob, ok := strings.Cut(name, ".")
		if !ok {
			kind, knob = string(registrytest.All), name
		}
		k := registrytest.Kind(kind)
		if knobs[k] == nil {
			knobs[k] = &registrytest.Knobs{}
		}
		if err := knobs[k].Set(knob, value); err != nil {
			return err
		}
	}
	for kind, k := range knobs {
		u.Set(kind, *k)
	}
	return nil
}

// seen counts the requests at an upstream or at modproxy by their kinds, with
// "all" for their sum.
func (w *world) seen(name string) (map[string]int, error) {
	if name == "proxy" {
		return w.seenByProxy(), nil
	}
	u := w.upstreams[name]
	if u == nil {
		return nil, fmt.Errorf("no upstream %q is started", name)
	}
	counts := map[string]int{}
	for _, r := range u.Requests() {
		counts[string(r.Kind)]++
		counts["all"]++
	}
	return counts, nil
}

// seenByProxy counts the request lines in modproxy's log, except those of clients that were told to come again: on a busy machine they
// repeat requests.
func (w *world) seenByProxy() map[string]int {
	counts := map[string]int{}
	for line := range bytes.Lines(w.log()[w.logStart:]) {
		var event struct {
			Method string `json:"method"`
			Path   string `json:"path"`
		}
		if json.Unmarshal(line, &event) == nil && event.Method != "" && !bytes.Contains(line, []byte(comeAgain)) {
			counts[kindAtProxy(event.Method, event.Path)]++
			counts["all"]++
		}
	}
	return counts
}

func kindAtProxy(method, p string) string {
	switch {
	case strings.Contains(p, "/v1/providers/") && path.Ext(p) == ".zip" && method == "HEAD":
		return "zip-head"
	case strings.Contains(p, "/v1/providers/") && path.Ext(p) == ".zip":
		return "zip"
	case strings.Contains(p, "/v1/providers/"):
		return "provider"
	case strings.HasPrefix(p, "/-/mirror/"):
		return "mirror"
	case path.Base(p) == "terraform.json":
		return "discovery"
	case path.Base(p) == "versions", path.Base(p) == "download":
		return path.Base(p)
	case strings.HasSuffix(p, ".tar.gz") && method == "HEAD":
		return "head"
	case strings.HasSuffix(p, ".tar.gz"):
		return "archive"
	}
	return "other"
}

// runConnections checks the number of connections to an upstream since the last reset.
func runConnections(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if neg || len(args) != 2 || w.upstreams[args[0]] == nil {
		ts.Fatalf("usage: connections NAME N")
	}
	most, err := strconv.Atoi(args[1])
	ts.Check(err)
	if n := w.upstreams[args[0]].Connections(); n > most {
		ts.Fatalf("%s saw %d connections; want %d at most, for\n%s", args[0], n, most, w.list(args[0]))
	}
}

func runRequests(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if len(args) == 1 && args[0] == "-reset" {
		for _, u := range w.upstreams {
			u.Reset()
		}
		ts.Check(w.resetLog(ts.Getenv("PROXY")))
		return
	}
	want, err := parseWant(args)
	if err != nil || neg {
		ts.Fatalf("usage: requests NAME KIND N|N+, or requests NAME KIND=N…: %v", err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		got, err := w.seen(args[0])
		ts.Check(err)
		if want(got) {
			return
		}
		// modproxy writes its line after the answer
		if args[0] != "proxy" || time.Now().After(end) {
			ts.Fatalf("%s saw %v; want %s\n%s", args[0], got, args[1:], w.list(args[0]))
		}
	}
}

// resetLog makes the counts of modproxy's requests begin here: after the line of a request that only this function sends. modproxy may
// delay its lines.
func (w *world) resetLog(proxy string) error {
	if w.proxy == nil {
		w.logStart = len(w.log())
		return nil
	}
	w.resets++
	mark := fmt.Sprintf("/reset-%d", w.resets)
	r, err := http.NewRequest("GET", proxy+mark, nil)
	if err != nil {
		return err
	}
	answer, err := send(r)
	if err != nil {
		return err
	}
	answer.Body.Close()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		log := w.log()
		if i := bytes.Index(log, []byte(mark)); i >= 0 {
			if n := bytes.IndexByte(log[i:], '\n'); n >= 0 {
				w.logStart = i + n + 1
				return nil
			}
		}
	}
	return fmt.Errorf("modproxy does not log a request for %s", mark)
}

// parseWant reads NAME KIND N, NAME KIND N+ and NAME KIND=N….
func parseWant(args []string) (func(map[string]int) bool, error) {
	if len(args) == 3 && !strings.Contains(args[1], "=") {
		number, atLeast := strings.CutSuffix(args[2], "+")
		n, err := strconv.Atoi(number)
		return func(got map[string]int) bool { return got[args[1]] == n || atLeast && got[args[1]] > n }, err
	}
	if len(args) < 2 {
		return nil, fmt.Errorf("too few words")
	}
	all := map[string]int{}
	for _, arg := range args[1:] {
		kind, number, _ := strings.Cut(arg, "=")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		all[kind] = n
		all["all"] += n
	}
	return func(got map[string]int) bool { return maps.Equal(got, all) }, nil
}

// list returns the counts for the message of a script that fails.
func (w *world) list(name string) string {
	if name == "proxy" {
		return string(w.log())
	}
	var b strings.Builder
	for _, r := range w.upstreams[name].Requests() {
		fmt.Fprintf(&b, "%s %s %s\n", r.Kind, r.Method, r.Path)
	}
	return b.String()
}

// runSeen looks for a request of a kind that has a matching line, among the requests before the first one that has a line which matches
// REGEXP2.
func runSeen(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	isBefore := len(args) == 5 && args[3] == "before"
	if len(args) != 3 && !isBefore || w.upstreams[args[0]] == nil {
		ts.Fatalf("usage: [!] seen NAME KIND REGEXP [before REGEXP2]")
	}
	want, err := regexp.Compile("(?m)" + args[2])
	ts.Check(err)
	end := regexp.MustCompile(`[^\s\S]`) // matches nothing
	if isBefore {
		end, err = regexp.Compile("(?m)" + args[4])
		ts.Check(err)
	}
	for _, r := range w.upstreams[args[0]].Requests() {
		if kind := registrytest.Kind(args[1]); kind != registrytest.All && kind != r.Kind {
			continue
		}
		var text bytes.Buffer
		fmt.Fprintf(&text, "%s %s\n", r.Method, r.Path)
		ts.Check(r.Header.Write(&text))
		lines := bytes.ReplaceAll(text.Bytes(), []byte("\r"), nil)
		if end.Match(lines) {
			break
		}
		if want.Match(lines) {
			if neg {
				ts.Fatalf("%s saw\n%s", args[0], text.Bytes())
			}
			return
		}
	}
	if !neg {
		ts.Fatalf("%s saw no such request, but\n%s", args[0], w.list(args[0]))
	}
}

func runAwait(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if len(args) != 3 || neg {
		ts.Fatalf("usage: await NAME KIND N")
	}
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		got, err := w.seen(args[0])
		ts.Check(err)
		if got[args[1]] >= want {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s saw %v; waited for %d %s requests\n%s", args[0], got, want, args[1], w.list(args[0]))
		}
	}
}
