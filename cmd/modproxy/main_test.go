package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

// result is the result of a run of modproxy.
type result struct {
	code           int
	stdout, stderr string
}

// command runs a command line in this process.
func command(t *testing.T, variables []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, variables, strings.NewReader(""), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func TestRun(t *testing.T) {
	for name, test := range map[string]struct {
		args      []string
		variables []string
		code      int
		stdout    string // part of the output
		stderr    string // the whole output
	}{
		"help":                {args: []string{"help"}, stdout: "client-config"},
		"help of a verb":      {args: []string{"config", "check", "--help"}, stdout: "No connection is opened"},
		"version":             {args: []string{"version"}, stdout: "modproxy " + buildVersion() + " ("},
		"version by a flag":   {args: []string{"--version"}, stdout: "modproxy " + buildVersion() + " ("},
		"flag of no concern":  {args: []string{"ls", "--anonymous"}, code: 2, stderr: "modproxy: modproxy ls has no flag --anonymous\nhint: \"modproxy ls --help\" lists the flags\n"},
		"flag before a verb":  {args: []string{"--data", "/nowhere", "ls"}, code: 1, stderr: "modproxy: there is no data directory at /nowhere\nhint: --data names the data directory, or --config the configuration that does\n"},
		"too few arguments":   {args: []string{"token", "revoke"}, code: 2, stderr: "modproxy: modproxy token revoke takes 1 argument, and got 0\nhint: usage: modproxy token revoke ID|NAME [flags]\n"},
		"bad duration":        {args: []string{"ledger", "drift", "--since", "soon"}, code: 2, stderr: "modproxy: --since: want a duration with its unit, such as 30s, 5m, 12h or 30d, not \"soon\"\n"},
		"version as JSON":     {args: []string{"version", "--json"}, stdout: `"version":"` + buildVersion() + `"`},
		"check":               {args: []string{"config", "check"}, stdout: "The configuration is in order.\n"},
		"config":              {args: []string{"config", "--offline"}, stdout: "# --offline\n"},
		"config as JSON":      {args: []string{"config", "--json", "--offline"}, stdout: `{"key":"offline","value":true,"source":"--offline"}`},
		"nothing":             {code: 2, stderr: "modproxy: no verb given\nhint: \"modproxy help\" lists the verbs\n"},
		"unknown verb":        {args: []string{"confg"}, code: 2, stderr: "modproxy: unknown verb \"confg\"\nhint: did you mean config?\n"},
		"unknown inner verb":  {args: []string{"config", "chek"}, code: 2, stderr: "modproxy: unknown verb \"chek\"\nhint: did you mean check?\n"},
		"two edits":           {args: []string{"sever"}, code: 2, stderr: "modproxy: unknown verb \"sever\"\nhint: did you mean serve?\n"},
		"another name":        {args: []string{"list"}, code: 2, stderr: "modproxy: unknown verb \"list\"\nhint: did you mean ls?\n"},
		"another word":        {args: []string{"ping"}, code: 2, stderr: "modproxy: unknown verb \"ping\"\nhint: did you mean health?\n"},
		"verb with a flag":    {args: []string{"serv", "--data", "x"}, code: 2, stderr: "modproxy: unknown verb \"serv\"\nhint: did you mean serve?\n"},
		"two edits in a flag": {args: []string{"ls", "--deta2", "x"}, code: 2, stderr: "modproxy: modproxy ls has no flag --deta2\nhint: did you mean --data?\n"},
		"flag of a letter":    {args: []string{"ls", "-x"}, code: 2, stderr: "modproxy: modproxy ls has no flag -x\nhint: \"modproxy ls --help\" lists the flags\n"},
		"rm of all":           {args: []string{"rm", "acme/vpc/aws", "--all"}, code: 2, stderr: "modproxy: --all removes the packages of all versions of registry.terraform.io/acme/vpc/aws, and no terminal can confirm that\nhint: --yes removes them, --dry-run prints them\n"},
		"no such verb":        {args: []string{"config", "frobnicate"}, code: 2, stderr: "modproxy: unknown verb \"frobnicate\"\nhint: \"modproxy config --help\" lists the verbs\n"},
		"unknown flag":        {args: []string{"version", "--jsn"}, code: 2, stderr: "modproxy: modproxy version has no flag --jsn\nhint: did you mean --json?\n"},
		"flag without value":  {args: []string{"config", "--listen"}, code: 2, stderr: "modproxy: --listen wants a value\n"},
		"bad flag value":      {args: []string{"config", "--listen", "8080"}, code: 2, stderr: "modproxy: --listen: listen: want an address and a port, such as 127.0.0.1:8080, not \"8080\"\n"},
		"too many arguments":  {args: []string{"version", "now"}, code: 2, stderr: "modproxy: modproxy version takes no argument, and got \"now\"\nhint: usage: modproxy version [flags]\n"},
		"bad variable":        {args: []string{"config"}, variables: []string{"MODPROXY_SHUTDOWN=5"}, code: 2, stderr: "modproxy: MODPROXY_SHUTDOWN: want a duration with its unit, such as 30s, 5m, 12h or 30d\n"},
		"no such file":        {args: []string{"config", "--config", "/nowhere/modproxy.yaml"}, code: 2, stderr: "modproxy: configuration: open /nowhere/modproxy.yaml: no such file or directory\n"},
		"unknown tool":        {args: []string{"client-config", "--tool", "tfu"}, code: 2, stderr: "modproxy: unknown tool \"tfu\"\nhint: did you mean tofu?\n"},
		"URL with a password": {args: []string{"client-config", "--url", "http://u:p@h"}, code: 2, stderr: "modproxy: --url: must not have a username or password in it\n"},
		"no registry":         {args: []string{"conformance", "--module", "acme/network/aws"}, code: 2, stderr: "modproxy: --url and --module are missing\nhint: modproxy conformance --url https://registry.example.com --module acme/network/aws\n"},
		"no such module":      {args: []string{"conformance", "--url", "http://h", "--module", "acme"}, code: 2, stderr: "modproxy: --module: invalid: \"acme\" is not a module address: want registry.example.com/namespace/name/system\n"},
		"unknown port": {
			args: []string{"client-config", "--listen", "127.0.0.1:0"}, code: 2,
			stderr: "modproxy: the port is not known: listen takes any free one\nhint: say --url\n",
		},
		"refused upstream": {
			args:      []string{"config", "check"},
			variables: []string{`MODPROXY_UPSTREAMS=[{host: registry.example.com, modules: "https://10.1.2.3/v1/modules/"}]`}, code: 2,
			stderr: "modproxy: MODPROXY_UPSTREAMS: upstreams[0].modules: destination not allowed: 10.1.2.3:443 is private-use (RFC 1918) (operator: egress.allow can except it)\n",
		},
		"reachable":            {args: []string{"config", "check", "--listen", ":8080"}, stdout: "in order"},
		"reachable on purpose": {args: []string{"config", "check", "--listen", ":8080", "--anonymous"}, stdout: "in order"},
		"everything at once": {
			args:      []string{"config", "check", "--listen", "8080", "--log-level", "loud", "--tls-cert", "/nowhere/cert.pem"},
			variables: []string{"MODPROXY_SHUTDOWN=5", "MODPROXY_POLICY_FILES=/nowhere/rules.yaml", "MODPROXY_BUNDLE_KEYS=none", "MODPROXY_NOTHING=x"},
			code:      2,
			stderr: "modproxy: MODPROXY_SHUTDOWN: want a duration with its unit, such as 30s, 5m, 12h or 30d\n" +
				"modproxy: unknown variable MODPROXY_NOTHING\nhint: did you mean MODPROXY_CONFIG?\n" +
				"modproxy: --log-level: log.level: want debug, info, warn or error, not \"loud\"\n" +
				"modproxy: --listen: listen: want an address and a port, such as 127.0.0.1:8080, not \"8080\"\n" +
				"modproxy: --tls-cert: tls.cert_file: tls.key_file is missing\n" +
				"modproxy: MODPROXY_BUNDLE_KEYS: bundle.keys: invalid: \"none\" is not a verifier key: \"modproxy ledger key\" prints one\n" +
				"modproxy: MODPROXY_POLICY_FILES: policy.files[0]: open /nowhere/rules.yaml: no such file or directory\n" +
				"hint: policy.files names YAML files with the keys rules and reserved\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := command(t, test.variables, test.args...)
			if got.code != test.code || got.stderr != test.stderr || !strings.Contains(got.stdout, test.stdout) {
				t.Errorf("modproxy %q = %d\nstdout: %s\nstderr: %s\nwant %d, stdout with %q, stderr\n%s",
					test.args, got.code, got.stdout, got.stderr, test.code, test.stdout, test.stderr)
			}
			if test.code != exitDone && got.stdout != "" {
				t.Errorf("modproxy %q failed and still printed %q", test.args, got.stdout)
			}
		})
	}
}

// closed is a standard output without a reader.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("write: broken pipe") }

func TestRunFailed(t *testing.T) {
	for _, args := range [][]string{
		{"config"}, {"config", "--json"}, {"config", "check"}, {"client-config"}, {"version"}, {"version", "--json"},
	} {
		var stderr bytes.Buffer
		code := run(context.Background(), args, nil, strings.NewReader(""), closed{}, &stderr)
		if code != exitFailed || stderr.String() != "modproxy: write: broken pipe\n" {
			t.Errorf("modproxy %q = %d, %q; want that it tells that it could not write", args, code, stderr.String())
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
