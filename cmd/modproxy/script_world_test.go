package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/modproxy/modproxy/test/rig"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/modproxy/modproxy/test/registrytest"
)

// patience is the longest wait of a script.
const patience = 2 * time.Minute

type worldKey struct{}

// world is the environment of one script.
type world struct {
	t             testscript.T
	dir           string
	tool, program string // the client's name and path
	upstreams     map[string]*registrytest.Upstream
	issuer        *issuer  // nil before its start
	ownConfig     bool     // the environment at the start of the script
	env           []string // the environment that the script began with

	proxy    *rig.Process    // nil while it does not run
	asked    <-chan answered // result of "get … &"
	read     chan struct{}   // closed when its answer may be read
	logStart int             // offset in the log at which counting begins
	resets   int             // number of resets
}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

func (w *world) close() {
	if w.proxy != nil {
		w.proxy.Kill()
	}
	if log, _ := os.ReadFile(w.path("modproxy.log")); bytes.Contains(log, []byte("DATA RACE")) {
		w.t.Fatal("modproxy.log has a data race:\n", string(log))
	}
	for _, u := range w.upstreams {
		u.Close()
	}
	if w.issuer != nil {
		w.issuer.Close()
	}
}

// writeConfigs writes modproxy's configuration, if the script has none, and the client's configuration for direct requests.
func (w *world) writeConfigs() error {
	var own, direct strings.Builder
	fmt.Fprintf(&own, "upstreams:\n")
	for _, name := range slices.Sorted(maps.Keys(w.upstreams)) {
		url := w.upstreams[name].URL
		fmt.Fprintf(&own, "  - host: registry.%s.example\n    modules: %s/v1/modules/\n    providers: %[2]s/v1/providers/\n", name, url)
		fmt.Fprintf(&direct, "host \"registry.%s.example\" {\n", name)
		fmt.Fprintf(&direct, "  services = { \"modules.v1\" = \"%s/v1/modules/\", \"providers.v1\" = \"%[1]s/v1/providers/\" }\n}\n", url)
	}
	fmt.Fprintf(&own, "egress: {allow: [127.0.0.0/8]}\n")
	if !w.ownConfig && len(w.upstreams) > 0 {
		if err := os.WriteFile(w.path("modproxy.yaml"), []byte(own.String()), 0o600); err != nil {
			return err
		}
	}
	for _, name := range []string{"direct.tfrc", "proxied.tfrc"} {
		if err := os.WriteFile(w.path(name), []byte(direct.String()), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func runModproxy(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if len(args) > 0 && args[len(args)-1] == "&" {
		ts.Check(w.serve(ts, args[:len(args)-1]))
		return
	}
	check(ts, neg, ts.Exec(built, args...))
}

// check ends the script unless err is the expected result of its line.
func check(ts *testscript.TestScript, neg bool, err error) {
	switch {
	case neg && err == nil:
		ts.Fatalf("unexpected success")
	case !neg:
		ts.Check(err)
	}
}

// serve starts modproxy and waits until it prints its URL.
func (w *world) serve(ts *testscript.TestScript, args []string) error {
	if w.proxy != nil {
		return fmt.Errorf("modproxy runs already")
	}
	cmd := exec.Command(built, args...)
	cmd.Dir = ts.MkAbs(".")
	env, err := w.environ(ts)
	if err != nil {
		return err
	}
	cmd.Env = env
	if w.proxy, err = rig.Start(cmd, w.path("modproxy.log")); err != nil {
		return err
	}
	url, err := w.proxy.URL(context.Background())
	if err != nil {
		return err
	}
	ts.Setenv("PROXY", url)
	ts.Setenv("PROXY_HOST", url[strings.Index(url, "//")+2:])
	return w.configureClient(ts, url)
}

// measure starts a modproxy that is independent of the script.
func measure(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: measure VARIABLE DURATION")
	}
	least, err := time.ParseDuration(args[1])
	ts.Check(err)
	cmd := exec.Command(built, "serve", "--listen", "127.0.0.1:0", "--data", ts.MkAbs("measured"))
	cmd.Dir, cmd.Env = ts.MkAbs("."), []string{"PATH=" + os.Getenv("PATH"), "GORACE=" + os.Getenv("GORACE")}
	began := time.Now()
	proxy, err := rig.Start(cmd, worldOf(ts).path("measured.log"))
	ts.Check(err)
	_, err = proxy.URL(context.Background())
	ts.Check(errors.Join(err, proxy.Stop()))
	ts.Setenv(args[0], fmt.Sprintf("%.0fs", max(least, 10*time.Since(began)).Seconds()))
}

// environ is the environment of setup, with the settings of the script for modproxy and for trusted certificates.
func (w *world) environ(ts *testscript.TestScript) ([]string, error) {
	if err := ts.Exec("sh", "-c", "env -0 | grep -z -e ^MODPROXY_ -e ^SSL_CERT_FILE= -e ^GIT_SSL_CAINFO="); err != nil {
		return nil, err
	}
	said := strings.Split(strings.TrimSuffix(ts.ReadFile("stdout"), "\x00"), "\x00")
	return append(slices.Clone(w.env), said...), nil
}

// log is modproxy's log so far; empty before its first start.
func (w *world) log() []byte {
	data, err := os.ReadFile(w.path("modproxy.log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []byte(err.Error())
	}
	return data
}

// configureClient configures the client with the output of client-config. Mirrors must use https.
func (w *world) configureClient(ts *testscript.TestScript, url string) error {
	for form, file := range map[string]string{"registry": "proxied.tfrc", "mirror": "mirror.tfrc"} {
		if form == "mirror" && !strings.HasPrefix(url, "https:") {
			continue
		}
		cmd := exec.Command(built, "client-config", "--url", url, "--providers", form)
		cmd.Dir, cmd.Env = ts.MkAbs("."), w.proxy.Env
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("modproxy client-config: %w", err)
		}
		if err := os.WriteFile(w.path(file), out, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func runEnd(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if w.proxy == nil {
		ts.Fatalf("modproxy does not run")
	}
	proxy := w.proxy
	w.proxy = nil
	err := proxy.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%v", err) // it had to be killed, which no script may expect
	}
	if err != nil && !neg {
		ts.Logf("%s", w.log())
	}
	check(ts, neg, err)
}

func runSignal(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if w.proxy == nil || len(args) != 1 || neg {
		ts.Fatalf("usage: signal TERM|HUP|KILL, while modproxy runs")
	}
	switch args[0] {
	case "TERM":
		ts.Check(w.proxy.Signal(syscall.SIGTERM))
	case "HUP":
		ts.Check(w.proxy.Signal(syscall.SIGHUP))
	case "KILL":
		w.proxy.Kill()
		w.proxy = nil
	default:
		ts.Fatalf("no signal %q", args[0])
	}
}

// logged waits for a line of modproxy's log, which may be delayed.
func logged(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: logged REGEXP")
	}
	line, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	w := worldOf(ts)
	for end := time.Now().Add(patience); !line.Match(w.log()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("no %s in the log\n%s", line, w.log())
		}
	}
}

// unsaidCodes finds the codes of answers that a later request for the package may replace, in what go-getter prints.
var unsaidCodes = regexp.MustCompile(`bad response code: (424|503)\b`)

func runClient(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	config := w.path("proxied.tfrc")
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if config = w.path(args[0][1:] + ".tfrc"); args[0] == "-unset" {
			config = ""
		}
		args = args[1:]
	}
	verbs := map[string][]string{
		"get":  {"get", "-no-color"},
		"init": {"init", "-no-color", "-input=false", "-backend=false"},
		"lock": {"providers", "lock", "-no-color"},
	}
	if len(args) < 2 || verbs[args[0]] == nil {
		ts.Fatalf("usage: client [-direct|-mirror|-NAME|-unset] get|init|lock DIR [FLAG…]")
	}
	ts.Setenv("TF_CLI_CONFIG_FILE", config)
	run := func() error {
		return ts.Exec(w.program, slices.Concat([]string{"-chdir=" + args[1]}, verbs[args[0]], args[2:])...)
	}
	err := run()
	// On a busy machine, modproxy may have no answer when the client comes again, or may find the reason of a failure only after the client
	// received the address of the package. The client is then run again.
	unsaid := func(text string) bool {
		return neg && strings.Contains(text, "ould not download module") && unsaidCodes.MatchString(text)
	}
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
		if text := oneLine(ts); !unanswered(text, neg) && !unsaid(text) {
			break
		}
		err = run()
	}
	ts.Setenv("TF_CLI_CONFIG_FILE", w.path("proxied.tfrc"))
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%v", err) // it had to be killed, which no script may expect
	}
	if err != nil && !neg {
		ts.Logf("%s", w.log())
	}
	check(ts, neg, err)
}

// border is what the clients draw beside an error.
var border = strings.NewReplacer("│", "", "╷", "", "╵", "")

// oneLine returns the output of a client without line breaks.
func oneLine(ts *testscript.TestScript) string {
	return strings.Join(strings.Fields(border.Replace(ts.ReadFile("stdout")+ts.ReadFile("stderr"))), " ")
}

func tells(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] tells TEXT")
	}
	if said := oneLine(ts); strings.Contains(said, args[0]) == neg {
		ts.Fatalf("it says: %s", said)
	}
}

var (
	hexadecimal = regexp.MustCompile(`\b[0-9a-fA-F]{40,64}\b`)     // checksums and fingerprints
	when        = regexp.MustCompile(`\b[0-9]+s\b|\b20[0-9T:-]+Z`) // times
)

// wrong adds the errors in the client's output to a file, as a paragraph in which names replace the varying parts.
func wrong(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: wrong FILE")
	}
	_, text, _ := strings.Cut(oneLine(ts), "Error: ")
	names := []string{ts.Getenv("PROXY"), "$PROXY", ts.Getenv("PROXY_HOST"), "$PROXY_HOST", ts.Getenv("OS_ARCH"), "$OS_ARCH", "linux_amd64", "$OS_ARCH"}
	for name, u := range worldOf(ts).upstreams {
		names = append(names, u.URL, "$"+strings.ToUpper(name)+"_URL")
	}
	text = hexadecimal.ReplaceAllString(strings.NewReplacer(names...).Replace(text), "$$HEX")
	text = when.ReplaceAllString(text, "$$TIME")
	text = strings.ReplaceAll(text, "tried $TIME ago, and again in $TIME", "to be tried again in $TIME") // text of slow runs
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	ts.Check(err)
	width := 0
	for _, word := range strings.Fields(text) {
		switch {
		case width > 0 && width+len(word) > 100:
			width, word = len(word), "\n"+word
		case width > 0:
			width, word = width+1+len(word), " "+word
		default:
			width = len(word)
		}
		_, err = f.WriteString(word)
		ts.Check(err)
	}
	_, err = f.WriteString("\n\n")
	ts.Check(errors.Join(err, f.Close()))
}
