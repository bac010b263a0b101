package previous_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

// TestScripts runs the scripts in testdata/script in both directions. They have these commands:
//
//	first ARGS…, second ARGS…     run a program; "serve … &" returns when it is ready, and sets $FIRST or $SECOND to its URL
//	end first|second              stop the serving program with SIGTERM; its exit code must be 0
//	install FILE URL ADDRESS VERSION
//	                              request a package from a proxy as clients do, with the token in the file "token";
//	                              $PACKAGE is its path then, which may be signed
//	key first|second              set $KEY to the verifier key of the program's ledger
//	get FILE URL                  request a URL without a token
//	extends FILE                  check that the JSON on standard output has every value of the JSON in FILE
//	registry down|up              refuse and accept connections to the registry
//
// The registry has the fixture testdata/registry.txtar, and the hostname registry.acme.example.
func TestScripts(t *testing.T) {
	p := built(t)
	for _, direction := range []struct{ name, first, second string }{
		{"previous first", p.previous, p.today},
		{"today first", p.today, p.previous},
	} {
		t.Run(direction.name, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Dir: filepath.Join("testdata", "script"), RequireExplicitExec: true, RequireUniqueNames: true,
				Setup: func(env *testscript.Env) error { return setup(env, direction.first, direction.second) },
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"first":    func(ts *testscript.TestScript, neg bool, args []string) { run(ts, neg, "first", args) },
					"second":   func(ts *testscript.TestScript, neg bool, args []string) { run(ts, neg, "second", args) },
					"end":      end,
					"key":      key,
					"install":  install,
					"get":      get,
					"extends":  extends,
					"registry": registry,
				},
			})
		})
	}
}

type worldKey struct{}

// world is the environment of one script.
type world struct {
	registry *registrytest.Upstream
	programs map[string]string // paths of the programs, by their names in the script
	serving  map[string]*rig.Process
}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

func setup(env *testscript.Env, first, second string) error {
	fixture, err := txtar.ParseFile(filepath.Join("testdata", "registry.txtar"))
	if err != nil {
		return err
	}
	w := &world{programs: map[string]string{"first": first, "second": second}, serving: map[string]*rig.Process{}}
	if w.registry, err = registrytest.StartArchive(fixture, registrytest.Options{}); err != nil {
		return err
	}
	env.Values[worldKey{}] = w
	env.Defer(func() {
		for _, p := range w.serving {
			p.Kill()
		}
		w.registry.Close()
	})
	config := fmt.Sprintf("upstreams: [{host: registry.acme.example, modules: %s/v1/modules/, providers: %[1]s/v1/providers/}]\n"+
		"egress: {allow: [127.0.0.0/8], ca_file: %s}\nauth: {required: true}\n"+
		"policy: {default: deny, rules: [{allow: registry.acme.example/acme/*/*}, {allow: registry.acme.example/acme/*}, "+
		"{allow: registry.acme.example/waits/*/*, approval: required}]}\n", w.registry.URL, w.registry.CAFile)
	for name, value := range map[string]string{
		"HOME": env.WorkDir, "MODPROXY_CONFIG": filepath.Join(env.WorkDir, "modproxy.yaml"), "MODPROXY_LISTEN": "127.0.0.1:0",
		"MODPROXY_DATA": filepath.Join(env.WorkDir, "data"), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.DevNull,
	} {
		env.Setenv(name, value)
	}
	return os.WriteFile(filepath.Join(env.WorkDir, "modproxy.yaml"), []byte(config), 0o600)
}

func run(ts *testscript.TestScript, neg bool, name string, args []string) {
	w := worldOf(ts)
	if len(args) == 0 || args[len(args)-1] != "&" {
		check(ts, neg, ts.Exec(w.programs[name], args...))
		return
	}
	cmd := exec.Command(w.programs[name], args[:len(args)-1]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH")}
	for _, v := range []string{
		"HOME", "TMPDIR", "MODPROXY_CONFIG", "MODPROXY_LISTEN", "MODPROXY_DATA", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL",
	} {
		cmd.Env = append(cmd.Env, v+"="+ts.Getenv(v))
	}
	p, err := rig.Start(cmd, ts.MkAbs(name+".log"))
	ts.Check(err)
	w.serving[name] = p
	at, err := p.URL(context.Background())
	ts.Check(err)
	ts.Setenv(strings.ToUpper(name), at)
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

func end(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if neg || len(args) != 1 || w.serving[args[0]] == nil {
		ts.Fatalf("usage: end first|second, while it serves")
	}
	ts.Check(w.serving[args[0]].Stop())
	delete(w.serving, args[0])
}

func key(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if neg || len(args) != 1 {
		ts.Fatalf("usage: key first|second")
	}
	ts.Check(ts.Exec(w.programs[args[0]], "ledger", "key"))
	ts.Setenv("KEY", strings.TrimSpace(ts.ReadFile("stdout")))
}

func registry(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case !neg && len(args) == 1 && args[0] == "down":
		worldOf(ts).registry.Down()
	case !neg && len(args) == 1 && args[0] == "up":
		ts.Check(worldOf(ts).registry.Up())
	default:
		ts.Fatalf("usage: registry down|up")
	}
}

// ask requests a URL, with a token unless it is empty. It repeats the request while the proxy answers that the request continues.
func ask(from *url.URL, token string) (*http.Response, []byte, error) {
	for {
		r, err := http.NewRequest("GET", from.String(), nil)
		if err != nil {
			return nil, nil, err
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, nil, err
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(body), "the request continues") {
			continue
		}
		if err == nil && answer.StatusCode >= 300 {
			err = fmt.Errorf("%s: %s: %s", from, answer.Status, body)
		}
		return answer, body, err
	}
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: get FILE URL")
	}
	from, err := url.Parse(args[1])
	ts.Check(err)
	_, body, err := ask(from, "")
	if check(ts, neg, err); err == nil {
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), body, 0o600))
	}
}

func install(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: install FILE URL ADDRESS VERSION")
	}
	body, path, err := download(args[1], args[2], args[3], strings.TrimSpace(ts.ReadFile("token")))
	if check(ts, neg, err); err == nil {
		ts.Setenv("PACKAGE", path)
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), body, 0o600))
	}
}

// download requests a package as clients do: service discovery, the list of versions, the location, and the package without the token.
func download(proxy, address, version, token string) (body []byte, path string, err error) {
	host, name, _ := strings.Cut(address, "/")
	at, err := url.Parse(proxy + "/" + host + "/.well-known/terraform.json")
	if err != nil {
		return nil, "", err
	}
	_, body, err = ask(at, token)
	if err != nil {
		return nil, "", err
	}
	service, kind := "modules.v1", "/download"
	if strings.Count(name, "/") == 1 {
		service, kind = "providers.v1", "/download/"+runtime.GOOS+"/"+runtime.GOARCH
	}
	var services map[string]any
	if err := json.Unmarshal(body, &services); err != nil {
		return nil, "", err
	}
	base, _ := services[service].(string)
	if at, err = at.Parse(base + name + "/versions"); err != nil {
		return nil, "", err
	}
	if _, body, err = ask(at, token); err != nil {
		return nil, "", err
	}
	if !strings.Contains(string(body), `"`+version+`"`) {
		return nil, "", fmt.Errorf("%s does not list %s: %s", at, version, body)
	}
	if at, err = at.Parse(version + kind); err != nil {
		return nil, "", err
	}
	answer, body, err := ask(at, token)
	if err != nil {
		return nil, "", err
	}
	location := answer.Header.Get("X-Terraform-Get")
	if service == "providers.v1" {
		var release struct {
			URL string `json:"download_url"`
		}
		if err := json.Unmarshal(body, &release); err != nil {
			return nil, "", err
		}
		location = release.URL
	}
	if at, err = at.Parse(location); err != nil {
		return nil, "", err
	}
	_, body, err = ask(at, "")
	return body, at.RequestURI(), err
}

func extends(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: extends FILE")
	}
	var before, now any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &before))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &now))
	if at := missing(before, now); at != "" {
		ts.Fatalf("%s has another value, or is missing", at)
	}
}

// missing returns the path of a value of before that now does not have. It returns an empty string if now has all values.
func missing(before, now any) string {
	switch b := before.(type) {
	case map[string]any:
		n, _ := now.(map[string]any)
		for key, value := range b {
			if at := missing(value, n[key]); at != "" {
				return "." + key + at
			}
		}
		return ""
	case []any:
		n, _ := now.([]any)
		if len(b) != len(n) {
			return "[]"
		}
		for i := range b {
			if at := missing(b[i], n[i]); at != "" {
				return fmt.Sprintf("[%d]%s", i, at)
			}
		}
		return ""
	}
	if reflect.DeepEqual(before, now) {
		return ""
	}
	return " "
}
