package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/auth"
)

var tokenText = regexp.MustCompile(`^mp_[a-z2-7]{16}_[a-z2-7]{52}\n$`)

// A new token is on standard output only: not on standard error, in a file, or in a list.
func TestTokenCreate(t *testing.T) {
	data := t.TempDir()
	variables := []string{"MODPROXY_DATA=" + data, "MODPROXY_PUBLIC_URL=https://modules.example.com",
		"MODPROXY_UPSTREAMS=[{host: registry.acme-corp.example}, {host: 'registry.example.com:8443'}]"}
	made := command(t, variables, "token", "create", "ci", "--scope", "Registry.Acme-Corp.Example:443/acme", "--scope", "registry.example.com:8443/*", "--scope", "other.example/x", "--admin")
	if made.code != exitDone || !tokenText.MatchString(made.stdout) {
		t.Fatalf("%d, %q, %s", made.code, made.stdout, made.stderr)
	}
	for _, want := range []string{
		"For modules and providers of registry.acme-corp.example, in", `credentials "registry.acme-corp.example" {`, "TF_TOKEN_registry_acme__corp_example=", `credentials "registry.example.com:8443" {`,
		`credentials "modules.example.com" {`, "machine modules.example.com login", "modproxy ls --server https://modules.example.com\n", "https://modules.example.com/-/metrics",
		"The scopes name hosts that are not among the upstreams: other.example.", "It expires at " + time.Now().Add(720*time.Hour).UTC().Format(time.DateOnly),
	} {
		if !strings.Contains(made.stderr, want) {
			t.Errorf("no %q in\n%s", want, made.stderr)
		}
	}
	if strings.Contains(made.stderr, "TF_TOKEN_registry_example_com") {
		t.Errorf("a variable for a host with a port\n%s", made.stderr)
	}
	list := command(t, variables, "token", "list")
	asJSON := command(t, variables, "token", "list", "--json")
	for _, out := range []string{made.stderr, list.stdout, asJSON.stdout} {
		if secret := strings.TrimSpace(made.stdout)[20:]; strings.Contains(out, secret) {
			t.Errorf("the token's secret is in\n%s", out)
		}
	}
	var listed struct{ Items []auth.Token }
	if err := json.Unmarshal([]byte(asJSON.stdout), &listed); err != nil || len(listed.Items) != 1 {
		t.Fatalf("%v: %s", err, asJSON.stdout)
	}
	got := listed.Items[0]
	if got.Name != "ci" || !got.Admin || len(got.Scopes) != 3 || got.Scopes[0].String() != "registry.acme-corp.example/acme" || !strings.Contains(list.stdout, got.ID) {
		t.Errorf("%+v\n%s", got, list.stdout)
	}
	for _, idOrName := range []string{"ci", got.ID} { // a repetition does nothing
		if out := command(t, variables, "token", "revoke", idOrName); out.code != exitDone || !strings.Contains(out.stdout, "is revoked") {
			t.Errorf("%+v", out)
		}
	}
	if out := command(t, variables, "token", "list"); !strings.Contains(out.stdout, "revoked "+time.Now().UTC().Format(time.DateOnly)) {
		t.Error(out.stdout)
	}
	if out := command(t, variables, "token", "create", "ci", "--admin", "--expires", "never"); !strings.Contains(out.stderr, "It never expires") || strings.Contains(out.stderr, "credentials") {
		t.Errorf("%+v", out)
	}
}

func TestTokenMisused(t *testing.T) {
	data := t.TempDir()
	if out := command(t, []string{"MODPROXY_DATA=" + data}, "token", "create", "first", "--scope", "*"); out.code != exitDone {
		t.Fatal(out)
	}
	for args, want := range map[string]struct {
		code   int
		stderr string
	}{
		"create":                           {2, "takes 1 argument, and got 0"},
		"create a b":                       {2, "takes 1 argument, and got 2"},
		"create a":                         {2, "hint: --scope '*' is for every module"},
		"create a --scope *":               {0, ""},
		"create a/b --scope *":             {2, "token: name"},
		"create b --scope acme":            {2, "--scope: invalid: scope"},
		"create b --scope */*":             {0, ""},
		"create c --scope x y":             {2, "takes 1 argument"},
		"create c --scope a*/b":            {2, "--scope: invalid: hostname"},
		"create d --scope * --expires 30d": {0, "It expires at "},
		"create e --scope * --expires -5h": {2, "--expires: want a duration"},
		"list a":                           {2, "takes no argument"},
		"revoke":                           {2, "takes 1 argument"},
		"revoke nobody":                    {1, "not found"},
		"":                                 {2, "no verb given"},
		"revok":                            {2, "did you mean revoke?"},
	} {
		got := command(t, []string{"MODPROXY_DATA=" + data}, append([]string{"token"}, strings.Fields(args)...)...)
		if got.code != want.code || !strings.Contains(got.stderr, want.stderr) {
			t.Errorf("%s: %+v; want %d, %s", args, got, want.code, want.stderr)
		}
	}
}

// An invalid configuration does not prevent revoking a token. Listing tokens does not create a missing directory.
func TestTokensOfAnyConfiguration(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	variables := []string{"MODPROXY_DATA=" + data}
	for _, args := range [][]string{{"token", "list"}, {"token", "create", "ci", "--scope", "*"}, {"token", "revoke", "ci"}, {"key", "rotate"}} {
		if out := command(t, variables, args...); out.code != exitFailed || !strings.Contains(out.stderr, "there is no data directory") {
			t.Errorf("%v: %+v", args, out)
		}
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the directory was made")
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	variables = append(variables, "MODPROXY_UPSTREAMS=[]", "MODPROXY_LISTEN=nowhere")
	for _, args := range [][]string{{"token", "create", "ci", "--scope", "*"}, {"token", "revoke", "ci"}} {
		if out := command(t, variables, args...); out.code != exitDone {
			t.Errorf("%v: %+v", args, out)
		}
	}
	if err := os.WriteFile(filepath.Join(data, "auth", "tokens.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"token", "create", "ci", "--scope", "*"}, {"token", "revoke", "ci"}, {"token", "list"}} {
		if out := command(t, variables, args...); out.code != exitFailed || !strings.Contains(out.stderr, "damaged") {
			t.Errorf("%v of a damaged file: %+v", args, out)
		}
	}
}

func TestKeyRotate(t *testing.T) {
	data := t.TempDir()
	key := filepath.Join(data, "auth", "key")
	if err := auth.MakeDir(filepath.Dir(key)); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.OpenSigner(t.Context(), key, auth.SignerConfig{}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	out := command(t, []string{"MODPROXY_DATA=" + data}, "key", "rotate")
	if after, err := os.ReadFile(key); err != nil || out.code != exitDone || string(after) == string(before) {
		t.Errorf("%v, %+v", err, out)
	}
}
