package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/config"
)

// withoutJSON are the verbs that do not have --json, with the reason.
var withoutJSON = map[string]string{
	"serve": "it runs until it is ended", "help": "text for people", "config schema": "it prints JSON of another shape",
	"completion bash": "a script", "completion fish": "a script", "completion powershell": "a script", "completion zsh": "a script",
}

// withoutJSONFlags are flags that change what a verb prints, and cannot be used with --json.
var withoutJSONFlags = []string{"--list", "--clear", "--suggest"}

// localJSON are the verbs that do not use the API of a proxy, with their arguments, in an order in which each one works. DATA is a data
// directory, DIR has a configuration, CALLS has calls of git repositories, URL is a registry, FORGE a configuration with own modules.
var localJSON = []struct{ verb, args string }{
	{"ledger init", "--data DATA"},
	{"rebuild", "--data DATA"},
	{"backup", "DATA.backup --data DATA"},
	{"restore", "DATA.backup --data DATA.restored"},
	{"token create", "ci --scope * --data DATA"},
	{"token list", "--data DATA"},
	{"token revoke", "ci --data DATA"},
	{"key rotate", "--data DATA"},
	{"config", ""},
	{"config check", "--listen 8080 --log-level loud"},
	{"config init", ""},
	{"client-config", ""},
	{"health", "--url URL"},
	{"doctor", "--offline --data DATA --listen 8080"},
	{"conformance", "--url URL --module acme/x/aws"},
	{"lock", "DIR --data DATA"},
	{"lock providers", "DIR --platform linux_amd64 --data DATA"},
	{"modules suggest", "CALLS"},
	{"policy check", ""},
	{"modules check", "--config FORGE"},
	{"version", ""},
}

// TestJSON checks that every verb that prints data prints one JSON object of one shape, for any data. It compares the fields with
// docs/reference/json.md; with -update it writes that page.
func TestJSON(t *testing.T) {
	fields := map[string]map[string]bool{}      // by verb
	tried := map[string]bool{"log-level": true} // by its script, because it needs a running modproxy
	for verb, all := range askVerbs {
		tried[verb] = true
		t.Run(verb, func(t *testing.T) {
			fields[verb] = map[string]bool{}
			for i, args := range all {
				if slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(withoutJSONFlags, arg) }) {
					continue
				}
				got := runJSON(t, fields[verb], verb, append(slices.Clone(args), "--server", hostileAPI(t, 1, false))...)
				if i == 0 && withItems[verb] && len(got) == 0 {
					t.Error("no items")
				}
			}
		})
	}
	data, url, forge := t.TempDir(), someRegistry(t), hostileForge(t)
	dir, calls := installedNothing(t), gitCalls(t)
	must(t, auth.MakeDir(filepath.Join(data, "auth")))
	for _, local := range localJSON {
		tried[local.verb] = true
		t.Run(local.verb, func(t *testing.T) {
			args := strings.NewReplacer("DATA", data, "DIR", dir, "CALLS", calls, "URL", url, "FORGE", forge).Replace(local.args)
			if local.verb == "key rotate" {
				firstKey(t, data)
			}
			if fields[local.verb] == nil {
				fields[local.verb] = map[string]bool{}
			}
			got := runJSON(t, fields[local.verb], local.verb, strings.Fields(args)...)
			if withItems[local.verb] && len(got) == 0 {
				t.Error("no items")
			}
		})
	}
	for _, verb := range verbs(newRootCommand(&environment{}), "") {
		_, without := withoutJSON[verb]
		switch {
		case without && (tried[verb] || hasJSON(t, verb)):
			t.Errorf("%s has --json", verb)
		case !without && !hasJSON(t, verb):
			t.Errorf("%s has no --json", verb)
		case !without && !tried[verb]:
			t.Errorf("%s is not tried", verb)
		}
	}
	if !t.Failed() {
		for verb, names := range fields {
			addDeclared(t, names, verb)
		}
		golden(t, "../../../../docs/reference/json.md", jsonReference(fields))
	}
}

// addDeclared adds the fields of items that the help of a verb names, if the verb printed no items.
func addDeclared(t *testing.T, names map[string]bool, verb string) {
	t.Helper()
	for name := range names {
		if strings.HasPrefix(name, "items.") {
			return
		}
	}
	cmd, _, err := newRootCommand(&environment{}).Find(strings.Fields(verb))
	must(t, err)
	_, usage, _ := strings.Cut(cmd.Flags().Lookup("json").Usage, `"items":`)
	usage, _, _ = strings.Cut(usage, `"summary"`)
	for _, name := range regexp.MustCompile(`"([a-z_]+)"`).FindAllStringSubmatch(usage, -1) {
		names["items."+name[1]] = true
	}
}

// jsonReference returns docs/reference/json.md.
func jsonReference(fields map[string]map[string]bool) string {
	var b strings.Builder
	b.WriteString(`<!-- go test ./cmd/modproxy -run TestJSON -update writes this page. -->

# JSON of the verbs

With ` + "`--json`, a verb prints one object: `items`, one a line, and with some verbs a `summary`" + `. These are the fields. A field
without a value may be missing. [Compatibility](compatibility.md) says what a new version may change.
`)
	for _, verb := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&b, "\n## modproxy %s\n", verb)
		for _, field := range slices.Sorted(maps.Keys(fields[verb])) {
			fmt.Fprintf(&b, "\n- `%s`", field)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// withItems are the verbs that list items in TestJSON.
var withItems = map[string]bool{
	"approve": true, "block": true, "client-config": true, "config": true, "config check": true, "config init": true, "config reload": true,
	"config show": true, "conformance": true, "decisions": true,
	"deprecate": true, "export": true, "gc": true, "health": true, "import": true, "key rotate": true, "ledger accept": true, "ledger drift": true,
	"ledger export": true, "ledger import": true, "ledger init": true, "ledger key": true, "ledger show": true, "ls": true, "mirror": true,
	"missing": true, "modules check": true, "modules suggest": true, "pending": true, "policy report": true, "policy test": true, "refresh": true, "reject": true,
	"restore": true, "rm": true,
	"status":       true,
	"token create": true, "token list": true, "token revoke": true, "unblock": true, "verify": true, "version": true,
}

// runJSON runs a verb with --json, checks the shape of the output, adds its fields to fields, and returns the items.
func runJSON(t *testing.T, fields map[string]bool, verb string, args ...string) (items []map[string]any) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "main.tf"), nil, 0o600))
	line := append(strings.Fields(verb), "--json")
	for _, arg := range args {
		if arg = strings.Replace(arg, "DIR", dir, 1); arg == "FILE" {
			arg = filepath.Join(dir, "new")
		}
		line = append(line, arg)
	}
	got := command(t, []string{"MODPROXY_TOKEN=x"}, line...)
	var doc map[string]json.RawMessage
	in := json.NewDecoder(strings.NewReader(got.stdout))
	if err := in.Decode(&doc); err != nil {
		t.Fatalf("%v, exit code %d\n%s\n%s", err, got.code, got.stdout, got.stderr)
	}
	if _, err := in.Token(); err != io.EOF {
		t.Errorf("more than one object:\n%s", got.stdout)
	}
	for name := range doc {
		if name != "items" && name != "summary" {
			t.Errorf("%q beside items and summary", name)
		}
	}
	if err := json.Unmarshal(doc["items"], &items); err != nil || items == nil {
		t.Fatalf("items: %v in %s", err, got.stdout)
	}
	if lines, want := strings.Count(got.stdout, "\n"), len(items)+2; lines != want && !(len(items) == 0 && lines == 1) {
		t.Errorf("%d items in %d lines:\n%s", len(items), lines, got.stdout)
	}
	for _, item := range items {
		checkNames(t, fields, "items", item)
	}
	if doc["summary"] != nil {
		var summary map[string]any
		if err := json.Unmarshal(doc["summary"], &summary); err != nil || summary == nil {
			t.Fatalf("summary: %v in %s", err, got.stdout)
		}
		checkNames(t, fields, "summary", summary)
	}
	return items
}

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// byData are the names of objects whose names come from data.
var byData = []string{"by_outcome", "value"}

// checkNames checks that all names in v are in snake_case, except those that come from data, and adds the paths of its fields to fields.
// at is the path of v.
func checkNames(t *testing.T, fields map[string]bool, at string, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		if slices.Contains(byData, at[strings.LastIndex(at, ".")+1:]) {
			fields[at] = true
			return
		}
		for name, value := range v {
			if !snakeCase.MatchString(name) {
				t.Errorf("%s: the name %q", at, name)
			}
			checkNames(t, fields, at+"."+name, value)
		}
	case []any:
		fields[at] = true
		for _, value := range v {
			checkNames(t, fields, at, value)
		}
	default:
		fields[at] = true
	}
}

// A verb that fails leaves the object open.
func TestJSONBrokenOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Modproxy-Api", "1")
		_, _ = io.WriteString(w, `{"item":{"module":"registry.example.com/acme/vpc/aws","version":"1.0.0"}}`+"\n"+`{"error":"the index is damaged"}`+"\n")
	}))
	defer server.Close()
	got := command(t, []string{"MODPROXY_TOKEN=x"}, "ls", "--json", "--server", server.URL)
	if got.code != exitFailed || !strings.HasPrefix(got.stdout, `{"items":[`) || json.Valid([]byte(got.stdout)) {
		t.Errorf("%+v", got)
	}
}

// someRegistry returns the URL of a registry with few answers.
func someRegistry(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/-/healthz" {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// installedNothing returns a directory without installed modules.
func installedNothing(t *testing.T) string {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, ".terraform/modules"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, ".terraform/modules/modules.json"), []byte(`{"Modules":[]}`), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, ".terraform.lock.hcl"), []byte("# nothing\n"), 0o600))
	return dir
}

// gitCalls returns a directory with calls of git repositories.
func gitCalls(t *testing.T) string {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(`
		module "a" { source = "git::https://user@git.example.com/acme/modules.git//vpc?ref=vpc/v1.2.3" }
		module "b" { source = "git::https://git.example.com/acme/modules.git//vpc?ref=main" }
	`), 0o600))
	return dir
}

// firstKey makes the key that signs package paths in a data directory.
func firstKey(t *testing.T, data string) {
	c := config.Default()
	c.Data = data
	_, err := auth.OpenSigner(t.Context(), c.KeyFile(), auth.SignerConfig{Life: time.Hour})
	must(t, err)
}
