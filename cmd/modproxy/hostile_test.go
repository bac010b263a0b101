package main

import (
	"encoding"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/mirror"
	"github.com/modproxy/modproxy/store"
)

// hostile is text from an untrusted source. If a program prints it unchanged, it prints a line that begins with forged.
const (
	forged  = "FORGED"
	hostile = "x\x1b]0;evil\a\n" + forged + "\r\n" + forged + "\x7f\u009b31m\u202e\u2066\u2028" + forged + "\U000e0001"
)

// filled returns a T in which every text is hostile, every list has two entries, and every number is n.
func filled[T any](n int64) (v T) {
	fill(reflect.ValueOf(&v).Elem(), n, 6)
	return v
}

func fill(v reflect.Value, n int64, depth int) {
	if depth == 0 {
		return
	}
	if _, own := v.Addr().Interface().(encoding.TextUnmarshaler); own || v.Type() == reflect.TypeFor[modproxy.Digest]() {
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		}
		return // such values cannot be parsed, so verbs never receive them
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Bool:
		v.SetBool(n%2 == 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(n)
	case reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n, depth-1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n, depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n, depth-1)
		fill(value, n, depth-1)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n, depth-1)
			}
		}
	}
}

// oneEach returns values of T that each have one of the pointers of T set.
func oneEach[T any](n int64) (all []any) {
	for i := range reflect.TypeFor[T]().NumField() {
		v := reflect.New(reflect.TypeFor[T]()).Elem()
		if v.Field(i).Kind() == reflect.Pointer {
			fill(v.Field(i), n, 6)
			all = append(all, v.Interface())
		}
	}
	return all
}

func items[T any](n int64) []any { return []any{filled[T](n)} }

// answers are answers of an API with hostile texts in all fields, by path: items, and the end.
var answers = map[string]func(n int64) (items []any, end any){
	"bundles/export":  func(n int64) ([]any, any) { return oneEach[admin.ExportLine](n), filled[admin.BundleHead](n) },
	"bundles/import":  func(n int64) ([]any, any) { return items[bundle.Item](n), filled[admin.BundleHead](n) },
	"clients/usual":   func(n int64) ([]any, any) { return nil, hostile },
	"decisions":       func(n int64) ([]any, any) { return items[admin.Decision](n), struct{}{} },
	"decisions/make":  func(n int64) ([]any, any) { return nil, filled[admin.DecisionResult](n) },
	"ledger/records":  func(n int64) ([]any, any) { return items[admin.Record](n), struct{}{} },
	"ledger/drift":    func(n int64) ([]any, any) { return items[admin.Drift](n), struct{}{} },
	"ledger/key":      func(n int64) ([]any, any) { return nil, hostile },
	"ledger/export":   func(n int64) ([]any, any) { return []any{[]byte("x")}, n },
	"ledger/accept":   func(n int64) ([]any, any) { return nil, filled[admin.AcceptResult](n) },
	"ledger/import":   func(n int64) ([]any, any) { return nil, n },
	"mirror":          func(n int64) ([]any, any) { return oneEach[mirror.Line](n), filled[mirror.Progress](n) },
	"mirror/check":    func(n int64) ([]any, any) { return oneEach[mirror.Line](n), filled[mirror.Progress](n) },
	"missing":         func(n int64) ([]any, any) { return items[admin.MissingVersion](n), struct{}{} },
	"missing/clear":   func(n int64) ([]any, any) { return nil, n },
	"modules/refresh": func(n int64) ([]any, any) { return items[admin.RefreshResult](n), struct{}{} },
	"packages":        func(n int64) ([]any, any) { return items[admin.Package](n), filled[store.Amount](n) },
	"packages/remove": func(n int64) ([]any, any) { return items[admin.RemovedPackage](n), struct{}{} },
	"packages/tidy":   func(n int64) ([]any, any) { return items[admin.RemovablePackage](n), filled[admin.CollectResult](n) },
	"packages/verify": func(n int64) ([]any, any) { return oneEach[admin.VerifyLine](n), filled[store.Verified](n) },
	"pending":         func(n int64) ([]any, any) { return items[admin.PendingVersion](n), struct{}{} },
	"pending/fetch":   func(n int64) ([]any, any) { return items[admin.PendingVersion](n), struct{}{} },
	"policy/forecast": func(n int64) ([]any, any) { return oneEach[admin.ForecastItem](n), struct{}{} },
	"policy/report":   func(n int64) ([]any, any) { return items[admin.ReportItem](n), struct{}{} },
	"policy/test":     func(n int64) ([]any, any) { return nil, filled[admin.Verdict](n) },
	"config":          func(n int64) ([]any, any) { return items[admin.ConfigKey](n), struct{}{} },
	"config/reload":   func(n int64) ([]any, any) { return nil, filled[admin.Reloaded](n) },
	"tokens":          func(n int64) ([]any, any) { return []any{hostileToken(n)}, struct{}{} },
	"tokens/create":   func(n int64) ([]any, any) { return nil, admin.CreatedToken{Text: hostile, Token: hostileToken(n)} },
	"tokens/revoke":   func(n int64) ([]any, any) { return nil, hostileToken(n) },
	"status":          func(n int64) ([]any, any) { return nil, filled[admin.Status](n) },
}

// hostileToken returns a token with hostile texts, and with scopes that can be parsed.
func hostileToken(n int64) auth.Token {
	t := filled[auth.Token](n)
	t.Scopes = []auth.Scope{auth.Everything}
	return t
}

// hostileAPI answers every request with answers of n, or with an error.
func hostileAPI(t *testing.T, n int64, fails bool) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/-/api/")
		answer, ok := answers[name]
		if !ok {
			t.Errorf("no hostile answer is known for %s", name)
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Modproxy-Api", "1")
		out := json.NewEncoder(w)
		if fails {
			_ = out.Encode(map[string]any{"error": hostile})
			return
		}
		list, end := answer(n)
		for _, item := range list {
			_ = out.Encode(map[string]any{"item": item})
		}
		_ = out.Encode(map[string]any{"done": end})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const module = "registry.acme.example/acme/x/aws"

// askVerbs are the verbs that use the API, with arguments. DIR has a configuration without calls; FILE does not exist.
var askVerbs = map[string][][]string{
	"approve":       {{module, "1.0.0"}},
	"reject":        {{module, "1.0.0"}},
	"block":         {{module, "--reason", hostile}},
	"unblock":       {{module}},
	"deprecate":     {{module, "--message", "x"}},
	"decisions":     {{}},
	"export":        {{module, "FILE"}},
	"gc":            {{}, {"--dry-run"}},
	"import":        {{"DIR/main.tf"}},
	"ls":            {{}},
	"mirror":        {{module}, {module, "--strict"}, {"--check", module}, {"--to-dir", "FILE", module}},
	"missing":       {{}, {"--list"}, {"--clear"}},
	"pending":       {{}, {"--fetch"}},
	"refresh":       {{module}},
	"rm":            {{module, "1.0.0"}},
	"status":        {{}},
	"token create":  {{"ci", "--scope", "*"}, {"ops", "--admin", "--expires", "never"}},
	"token list":    {{}},
	"token revoke":  {{"ci"}},
	"config show":   {{}},
	"config reload": {{}},
	"verify":        {{}},
	"ledger show":   {{}},
	"ledger drift":  {{"--all"}},
	"ledger key":    {{}},
	"ledger accept": {{module, "1.0.0", "--sum", "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "--reason", "x"}},
	"ledger export": {{"FILE"}},
	"ledger import": {{"DIR/main.tf"}},
	"policy test":   {{module, "1.0.0"}},
	"policy report": {{}, {"DIR"}, {"--suggest"}},
}

// otherVerbs do not use the API. The named tests check them, or they print no untrusted text.
var otherVerbs = map[string]string{
	"backup": "TestHostileElsewhere", "restore": "TestHostileElsewhere",
	"completion bash": "", "completion fish": "", "completion powershell": "", "completion zsh": "",
	"config": "the operator's own", "config check": "the operator's own", "config init": "the operator's own", "config schema": "", "client-config": "the operator's own",
	"conformance": "TestHostileElsewhere", "doctor": "TestHostileElsewhere", "health": "TestHostileElsewhere", "help": "", "key rotate": "", "ledger init": "",
	"modules check": "TestHostileElsewhere", "modules suggest": "TestHostileCalls", "lock": "TestHostileLock", "lock providers": "TestHostileLock",
	"policy check": "the operator's own", "rebuild": "TestHostileElsewhere",
	"serve": "TestLogIsHarmless of package proxy", "version": "", "log-level": "the operator's own",
}

// No output of a verb has a terminal control character or a line from an untrusted source, for any answer of the API: as text and as JSON,
// on standard output and standard error, for results and for errors.
func TestHostileAnswers(t *testing.T) {
	root := newRootCommand(&environment{})
	all := verbs(root, "")
	for _, verb := range all {
		if _, other := otherVerbs[verb]; other == (askVerbs[verb] != nil) {
			t.Errorf("the verb %q is not tried with hostile text, or listed twice", verb)
		}
	}
	for _, verb := range slices.Concat(slices.Collect(maps.Keys(askVerbs)), slices.Collect(maps.Keys(otherVerbs))) {
		if !slices.Contains(all, verb) {
			t.Errorf("there is no verb %q", verb)
		}
	}
	for verb, all := range askVerbs {
		for _, args := range all {
			for _, json := range []bool{false, true} {
				t.Run(strings.Join(append([]string{verb}, args[:min(1, len(args))]...), " "), func(t *testing.T) {
					t.Parallel()
					for _, n := range []int64{1, 2} {
						for _, fails := range []bool{false, true} {
							tryHostile(t, verb, args, hostileAPI(t, n, fails), json, fails)
						}
					}
				})
			}
		}
	}
}

func tryHostile(t *testing.T, verb string, args []string, api string, json, fails bool) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	line := append(strings.Fields(verb), "--server", api)
	for _, arg := range args {
		if arg = strings.Replace(arg, "DIR", dir, 1); arg == "FILE" {
			arg = filepath.Join(t.TempDir(), "new")
		}
		line = append(line, arg)
	}
	if json {
		if line = append(line, "--json"); !hasJSON(t, verb) || slices.Contains(args, "--list") || slices.Contains(args, "--clear") || slices.Contains(args, "--suggest") {
			return
		}
	}
	got := command(t, []string{"MODPROXY_TOKEN=x"}, line...)
	if got.code == exitMisuse {
		t.Fatalf("%q is misused: %s", line, got.stderr)
	}
	if fails && verb != "ledger export" && got.code != exitFailed {
		t.Errorf("%q: exit code %d for an error", line, got.code)
	}
	isHarmless(t, strings.Join(line, " "), got.stdout)
	isHarmless(t, strings.Join(line, " "), got.stderr)
}

// isHarmless checks the output of a program.
func isHarmless(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case !utf8.ValidString(line), strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }):
			t.Errorf("%.60q prints %q", what, line)
		case strings.HasPrefix(strings.TrimSpace(line), forged):
			t.Errorf("%.60q prints a line that a stranger wrote: %q in\n%s", what, line, text)
		}
	}
}

// verbs returns all commands below a command that can run.
func verbs(cmd *cobra.Command, above string) (all []string) {
	for _, c := range cmd.Commands() {
		name := strings.TrimSpace(above + " " + c.Name())
		if _, group := c.Annotations[isGroup]; c.Runnable() && !group {
			all = append(all, name)
		}
		all = append(all, verbs(c, name)...)
	}
	return all
}

// rawWriters are the places that write without package clean, by file and expression, with the reason.
var rawWriters = map[string]string{
	"main.go os.Stdout": "what the writers that clean write to", "main.go os.Stderr": "what the writers that clean write to",
	"backup.go env.rawOut": "a backup", "backup.go env.rawErr": "TestProgress",
	"bundle.go env.rawOut": "a signed bundle", "ledger_export.go env.rawOut": "a signed ledger",
	"bundle.go env.rawErr": "TestProgress", "import.go env.rawErr": "TestProgress", "mirror_print.go env.rawErr": "TestProgress", "verify.go env.rawErr": "TestProgress",
	"serve.go env.rawErr": "TestLogIsHarmless of package proxy", "confirm.go env.rawErr": "nothing is written",
}

// All output of verbs goes through the writers that clean it, except at the listed places.
func TestRawWriters(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, _ := s.X.(*ast.Ident)
			switch text := s.Sel.Name; {
			case x == nil:
			case x.Name == "os" && (text == "Stdout" || text == "Stderr"), text == "rawOut", text == "rawErr":
				found[name+" "+x.Name+"."+text] = true
			case x.Name == "fmt" && strings.HasPrefix(text, "Print"), x.Name == "log":
				t.Errorf("%s uses %s.%s", name, x.Name, text)
			}
			return true
		})
	}
	for place := range found {
		if rawWriters[place] == "" {
			t.Errorf("%s is not listed", place)
		}
	}
	for place := range rawWriters {
		if !found[place] {
			t.Errorf("%s is listed, and is not there any more", place)
		}
	}
}

func hasJSON(t *testing.T, verb string) bool {
	cmd, _, err := newRootCommand(&environment{}).Find(strings.Fields(verb))
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Flags().Lookup("json") != nil
}
