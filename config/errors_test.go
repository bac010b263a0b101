package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/internal/hint"
)

// TestFileErrors: an error about a file names the line and the key. FILE in the expected text means the name of the file.
func TestFileErrors(t *testing.T) {
	all, err := txtar.ParseFile("testdata/wrong.txtar")
	if err != nil || len(all.Files) < 40 {
		t.Fatal(err, len(all.Files))
	}
	for file := range slices.Chunk(all.Files, 2) {
		name, _ := strings.CutSuffix(file[0].Name, ".yaml")
		if file[1].Name != name+".errors" {
			t.Fatalf("%s follows %s", file[1].Name, file[0].Name)
		}
		t.Run(name, func(t *testing.T) { checkErrors(t, string(file[0].Data), nil, string(file[1].Data)) })
	}
}

// TestCheckErrors: values that are well formed but wrong.
func TestCheckErrors(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"log level":           {"log:\n  level: loud", "FILE:2: log.level: want debug, info, warn or error, not \"loud\"\n"},
		"offline, and a name": {"listen: localhost:80\noffline: true", "FILE:1: listen: a hostname needs a name server, and modproxy is offline: want an address, such as 127.0.0.1:8080\n"},
		"offline issuers": {"offline: true\nauth:\n  required: true\n  issuers: [{url: 'https://a.example', audience: b, groups: [{name: c, match: [d=e], scopes: ['*']}]}]",
			"FILE:4: auth.issuers: modproxy is offline and cannot request the keys of issuers: remove them, and give clients tokens of \"modproxy token create\"\n"},
		"listen host":         {"listen: 'a b:80'\nanonymous: true", "FILE:1: listen: invalid: hostname \"a b\"\n"},
		"listen port":         {"listen: 127.0.0.1:http", "FILE:1: listen: want a port from 0 to 65535, not \"http\"\n"},
		"public URL":          {"public_url: modules.example.com", "FILE:1: public_url: want an absolute URL, such as https://modules.example.com\n"},
		"public URL, query":   {"public_url: https://a.example/?x=1", "FILE:1: public_url: must not have a query or fragment\n"},
		"public URL, port":    {"public_url: https://a.example:99999", "FILE:1: public_url: invalid port \"99999\"\n"},
		"trusted proxy":       {"trusted_proxies:\n- 10.0.0.1\n- lb.example.com", "FILE:3: trusted_proxies[1]: want an address or a network, such as 10.0.0.0/8, not \"lb.example.com\"\n"},
		"no data":             {"data: ''", "FILE:1: data: missing\n"},
		"certificate alone":   {"tls:\n  cert_file: a.pem", "FILE:2: tls.cert_file: tls.key_file is missing\n"},
		"key alone":           {"tls:\n  key_file: a.pem", "FILE:2: tls.key_file: tls.cert_file is missing\n"},
		"no upstreams":        {"upstreams: []", "FILE:1: upstreams: missing\n"},
		"no host":             {"upstreams:\n- modules: https://a.example/", "FILE:2: upstreams[0].host: missing\n"},
		"URL for host":        {"upstreams: [{host: 'https://u:p@a.example'}]", "FILE:1: upstreams[0].host: want a hostname, not a URL\n"},
		"host":                {"upstreams: [{host: 'a b'}]", "FILE:1: upstreams[0].host: invalid: hostname \"a b\"\n"},
		"same host":           {"upstreams:\n- host: a.example\n- host: A.Example:443", "FILE:3: upstreams[1].host: a.example appears twice\n"},
		"token for everybody": {"upstreams: [{host: '*', token: x}]", "FILE:1: upstreams[0]: only the rate can be set for \"*\": a registry with more needs an entry of its own\n"},
		"modules":             {"upstreams: [{host: a.example, modules: /v1/modules/}]", "FILE:1: upstreams[0].modules: want an absolute URL, such as https://modules.example.com\n"},
		"docs":                {"upstreams: [{host: a.example, docs: api.opentofu.org}]", "FILE:1: upstreams[0].docs: want an absolute URL, such as https://modules.example.com\n"},
		"docs of nobody":      {"upstreams: [{host: a.example, docs: 'https://10.0.0.1/'}]", "FILE:1: upstreams[0].docs: destination not allowed: 10.0.0.1:443 is private-use (RFC 1918) (operator: egress.allow can except it)\n"},
		"providers of nobody": {"upstreams: [{host: a.example, providers: 'https://10.0.0.1/'}]", "FILE:1: upstreams[0].providers: destination not allowed: 10.0.0.1:443 is private-use (RFC 1918) (operator: egress.allow can except it)\n"},
		"docs of everybody":   {"upstreams: [{host: '*', docs: 'https://api.opentofu.org'}]", "FILE:1: upstreams[0]: only the rate can be set for \"*\": a registry with more needs an entry of its own\n"},
		"both tokens":         {"upstreams: [{host: a.example, token: x, token_file: y}]", "FILE:1: upstreams[0].token: token and token_file are both set\n"},
		"route":               {"routes: [{namespace: a/b, upstream: a.example}]", "FILE:1: routes[0].namespace: invalid: namespace \"a/b\": want 1 to 64 letters, digits, - and _, with a letter or digit at both ends\nFILE:1: routes[0].upstream: \"a.example\" is not one of the upstreams\n"},
		"route to nowhere":    {"routes: [{namespace: a}]", "FILE:1: routes[0].upstream: missing\n"},
		"same route":          {"routes: [{namespace: a, upstream: registry.terraform.io}, {namespace: a, upstream: registry.opentofu.org}]", "FILE:1: routes[1].namespace: a appears twice\n"},
		"egress":              {"egress: {allow: ['10.0.0.0/8', '[fd00::5]:8443', '10.0.0.5:443', a.example, 'a b'], ports: [0]}", "FILE:1: egress: port 0: want 1 to 65535\n"},
		"credential":          {"credentials:\n- host: a.example", "FILE:2: credentials[0]: want a password or an SSH key\n"},
		"name alone":          {"credentials:\n- {host: a.example, username: u}", "FILE:2: credentials[0].username: password is missing\n"},
		"both passwords":      {"credentials: [{host: a.example, password: x, password_file: y}]", "FILE:1: credentials[0].password: password and password_file are both set\n"},
		"unknown SSH host":    {"credentials: [{host: a.example, ssh_key_file: x}]", "FILE:1: credentials[0]: want both ssh_key_file and known_hosts_file, or neither\n"},
		"URL for token host":  {"credentials: [{host: a.example, password: x, token_host: 'https://b.example/token'}]", "FILE:1: credentials[0].token_host: want a hostname, not a URL\n"},
		"every token host":    {"credentials: [{host: a.example, password: x, token_host: '*'}]", "FILE:1: credentials[0].token_host: want a hostname\n"},
		"token host for SSH":  {"credentials: [{host: a.example, ssh_key_file: x, known_hosts_file: y, token_host: b.example}]", "FILE:1: credentials[0].token_host: password is missing\n"},
		"same credential":     {"credentials: [{host: a.example, password: x}, {host: A.example, password: y}]", "FILE:1: credentials[1].host: a.example appears twice\n"},
		"bounds":              {"cache: {fresh: 0s, memory: 0B}\nfetch: {at_once: -1}", "FILE:1: cache.fresh: must be more than 0\nFILE:1: cache.memory: must be more than 0\nFILE:2: fetch.at_once: must be more than 0\n"},
		"limits":              {"limits: {connections: 0, requests: -1, rate: -1}", "FILE:1: limits.connections: must be more than 0\nFILE:1: limits.requests: must be more than 0\nFILE:1: limits.rate: must not be less than 0\n"},
		"signers": {"providers:\n  keys:\n  - {provider: '*/acme/*/*', fingerprints: [beef]}\n  - provider: '*/acme/*'",
			"FILE:3: providers.keys[0].provider: want host/namespace/type, where * matches a segment or part of one\n" +
				"FILE:3: providers.keys[0].fingerprints: invalid: key \"BEEF\": want the 40 or 64 hexadecimal digits of a fingerprint\n" +
				"FILE:4: providers.keys[1].fingerprints: missing\n"},
		"sources": {"egress: {allow: ['10.0.0.9:22']}\nsources:\n- {from: github.com/acme/*, to: git.corp.example/acme/*}\n- {from: github.com/acme/vpc.git, to: git.corp.example/vpc}\n" +
			"- {from: 'https://github.com/b/*', to: git.corp.example/b/*}\n- {from: github.com/c/*, to: 'https://u:s3cret@git.corp.example/c/*'}\n- {from: github.com/d/*}\n" +
			"- {from: github.com/e/*, to: GitHub.com/e/*}\n- {from: github.com/f/*, to: 10.0.0.1/f/*}\n- {from: github.com/g/*, to: 'http://git.corp.example/g/*'}\n" +
			"- {from: github.com/h/*, to: 'ssh://git@10.0.0.9/h/*'}\n- {from: github.com/i/*, to: git.corp.example:8443/i/*}\n- {from: GITHUB.com/acme/*, to: git.corp.example/x/*}",
			"FILE:7: sources[4].to: missing\n" +
				"FILE:4: sources[1]: it never matches: sources[0] (FILE:3) matches the same locations before\n" +
				"FILE:5: sources[2]: from: want HOST/PATH, without a getter and a scheme: it matches locations of every kind\n" +
				"FILE:6: sources[3]: to: only ssh://USER@HOST/PATH may have a user, without a password: configure a credential for the host instead\n" +
				"FILE:8: sources[5]: to is the same as from; with a scheme, to changes the scheme of the locations\n" +
				"FILE:13: sources[10]: it never matches: sources[0] (FILE:3) matches the same locations before\n" +
				"FILE:9: sources[6].to: destination not allowed: 10.0.0.1:443 is private-use (RFC 1918) (operator: egress.allow can except it)\n" +
				"FILE:10: sources[7].to: destination not allowed: http to git.corp.example:80 would not be encrypted (operator: egress.allow can except it)\n" +
				"FILE:11: sources[8].to: credentials[] has no SSH key for 10.0.0.9\n" +
				"FILE:12: sources[9].to: destination not allowed: port 8443 of git.corp.example (operator: egress.allow can except it)\n"},
		"stale before old": {"cache: {max_stale: 1m}", "FILE:1: cache.max_stale: must not be less than cache.fresh\n"},
	} {
		t.Run(name, func(t *testing.T) { checkErrors(t, test.file, nil, test.want) })
	}
}

// TestAuthErrors: settings for authentication that contradict each other, have no effect, or would apply to everyone.
func TestAuthErrors(t *testing.T) {
	const wantAnonymous = "want true, false, or a list of scopes, such as [registry.terraform.io/*]\n"
	const asked = "auth:\n  required: true\n  issuers:\n  - url: https://idp.example.com\n    audience: here\n"
	for name, test := range map[string]struct{ file, want string }{
		"anonymous and asked": {"anonymous: true\nauth:\n  required: true", "FILE:3: auth.required: clients send no credential, because of anonymous: true (FILE:1)\n"},
		"anonymous, issuers":  {"anonymous: true\nauth:\n  issuers:\n  - {url: https://idp.example.com, audience: here}", "FILE:4: auth.issuers: clients send no credential, because of anonymous: true (FILE:1)\n"},
		"an empty list":       {"anonymous: []", "FILE:1: anonymous: " + wantAnonymous},
		"one scope":           {"anonymous: a.example/*", "FILE:1: anonymous: " + wantAnonymous},
		"true as text":        {"anonymous: 'true'", "FILE:1: anonymous: " + wantAnonymous},
		"keys":                {"anonymous: {a: b}", "FILE:1: anonymous: " + wantAnonymous},
		"a part of a name":    {"anonymous:\n- a.example/*\n- a.example/b*", "FILE:3: anonymous[1]: invalid: scope \"a.example/b*\": want {host}/{namespace}, as in registry.terraform.io/acme, where either may be * as a whole, or * for everything\n"},
		"loopback, issuers":   {"auth:\n  issuers: [{url: https://idp.example.com, audience: here}]", "FILE:2: auth.issuers: clients send no credential to a loopback address: set auth.required: true\n"},
		"short life":          {"auth: {signed_paths: 5s}", "FILE:1: auth.signed_paths: invalid: life of signed paths 5s: want whole seconds, 1m0s to 168h0m0s\n"},
		"no life":             {"auth: {signed_paths: 0s}", "FILE:1: auth.signed_paths: must be more than 0\n"},
		"no issuer":           {"listen: :80\nauth: {issuers: [{audience: x}]}", "FILE:2: auth.issuers[0]: invalid: issuer \"\": want an https URL without user and fragment\n"},
		"no audience":         {"listen: :80\nauth:\n  issuers:\n  - url: https://idp.example.com", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": it needs an audience: the name of this proxy in its tokens\n"},
		"plain issuer":        {"listen: :80\nauth: {issuers: [{url: http://idp.example.com, audience: x}]}", "FILE:2: auth.issuers[0]: invalid: issuer \"http://idp.example.com\": want an https URL without user and fragment\n"},
		"same issuer":         {asked + "  - {url: https://idp.example.com, audience: there}", "FILE:6: auth.issuers[1].url: https://idp.example.com appears twice\n"},
		"algorithm":           {asked + "    algorithms: [HS256]", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": algorithm \"HS256\": want one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA\n"},
		"login, no client":    {asked + "    login: {scopes: [openid]}", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": login: it needs a client: the id of a public client that is registered at the issuer\n"},
		"login, client":       {asked + "    login: {client: \"a\\tb\"}", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": login: client \"a\\tb\": want printable ASCII (RFC 6749, appendix A.1)\n"},
		"login, scopes":       {asked + "    login: {client: a, scopes: [openid groups]}", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": login: scope \"openid groups\": want one scope in each entry, without spaces (RFC 6749, appendix A.4)\n"},
		"login, parameter":    {asked + "    login: {client: a, parameters: [audience]}", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": login: parameter \"audience\": want NAME=VALUE, and no name of these: client_id, code_challenge, code_challenge_method, redirect_uri, response_type, scope, state\n"},
		"login, own":          {asked + "    login: {client: a, parameters: [state=1]}", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": login: parameter \"state=1\": want NAME=VALUE, and no name of these: client_id, code_challenge, code_challenge_method, redirect_uri, response_type, scope, state\n"},
		"login, one port":     {asked + "    login: {client: a, ports: [10000]}", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": login: ports: want the first and a greater last, from 1024 to 65535, as in [10000, 10010]\n"},
		"login, no range":     {asked + "    login: {client: a, ports: [10000, 10000]}", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": login: ports: want the first and a greater last, from 1024 to 65535, as in [10000, 10010]\n"},
		"login, low port":     {asked + "    login: {client: a, ports: [80, 10000]}", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": login: ports: want the first and a greater last, from 1024 to 65535, as in [10000, 10010]\n"},
		"login, high port":    {asked + "    login: {client: a, ports: [10000, 65536]}", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": login: ports: want the first and a greater last, from 1024 to 65535, as in [10000, 10010]\n"},
		"two logins":          {asked + "    login: {client: a}\n  - {url: 'https://b.example', audience: here, login: {client: a}}", "FILE:7: auth.issuers[1].login: auth.issuers[0] has a login already, and clients use only one\n"},
		"login, unknown key":  {asked + "    login: {client_id: a}", "FILE:6: unknown key \"auth.issuers[0].login.client_id\"\nhint: did you mean auth.issuers[0].login.client?\n"},
		"no group name":       {asked + "    groups:\n    - match: [a=b]\n      admin: true", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": group \"\": it needs a name\n"},
		"group of everybody":  {asked + "    groups:\n    - name: all\n      admin: true", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": group \"all\": it would have every token of the issuer: want values or match\n"},
		"group for nothing":   {asked + "    groups:\n    - name: all\n      match: [a=b]", "FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": group \"all\": it allows nothing: want scopes or admin: true\n"},
		"no claim": {asked + "    groups:\n    - name: a\n      match: [a]\n      scopes: ['*']",
			"FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": group \"a\": match: want claim=value, not \"a\"\n"},
		"claim twice": {asked + "    groups:\n    - name: a\n      match: [a=b, a=c]\n      scopes: ['*']",
			"FILE:4: auth.issuers[0]: invalid: issuer \"https://idp.example.com\": group \"a\": match: the claim \"a\" appears twice, and has one value\n"},
		"scope": {asked + "    groups:\n    - name: a\n      match: [a=b]\n      scopes:\n      - registry.example.com/ac*",
			"FILE:10: auth.issuers[0].groups[0].scopes[0]: invalid: scope \"registry.example.com/ac*\": want {host}/{namespace}, as in registry.terraform.io/acme, where either may be * as a whole, or * for everything\n"},
		"scope's host": {asked + "    groups:\n    - name: a\n      match: [a=b]\n      scopes: ['*.example.com/acme']",
			"FILE:9: auth.issuers[0].groups[0].scopes[0]: invalid: hostname \"*.example.com\": idna: disallowed rune U+002A\n"},
	} {
		t.Run(name, func(t *testing.T) { checkErrors(t, test.file, nil, test.want) })
	}
}

func TestVariableErrors(t *testing.T) {
	for variable, want := range map[string]string{
		"MODPROXY_CACH_FRESH=5m":                         "unknown variable MODPROXY_CACH_FRESH\nhint: did you mean MODPROXY_CACHE_FRESH?\n",
		"MODPROXY_TLS_CERT=x":                            "unknown variable MODPROXY_TLS_CERT\nhint: did you mean MODPROXY_TLS_CERT_FILE?\n",
		"MODPROXY_XYZZYQWV=x":                            "unknown variable MODPROXY_XYZZYQWV\nhint: \"modproxy config\" prints every key; cache.fresh is MODPROXY_CACHE_FRESH\n",
		"MODPROXY_OFFLINE=maybe":                         "MODPROXY_OFFLINE: want true or false\n",
		"MODPROXY_CACHE_MEMORY=9999999999TiB":            "MODPROXY_CACHE_MEMORY: 9999999999TiB is too large\n",
		"MODPROXY_EGRESS_PORTS=22,ssh":                   "MODPROXY_EGRESS_PORTS: egress.ports[1]: want a whole number\n",
		"MODPROXY_UPSTREAMS=registry.terraform.io":       "MODPROXY_UPSTREAMS: upstreams: want a list in YAML or JSON, such as [{key: value}]\n",
		"MODPROXY_UPSTREAMS=[{host: a.example, hots: b}": "MODPROXY_UPSTREAMS: not YAML: sequence end token ']' not found\n",
		"MODPROXY_UPSTREAMS=# none":                      "MODPROXY_UPSTREAMS: upstreams: want a list in YAML or JSON, such as [{key: value}]\n",
		"MODPROXY_UPSTREAMS=[{hots: a.example}]":         "MODPROXY_UPSTREAMS: unknown key \"upstreams[0].hots\"\nhint: did you mean upstreams[0].host?\n",
		"MODPROXY_UPSTREAMS=- host: a\n- hots: b":        "MODPROXY_UPSTREAMS:2: unknown key \"upstreams[1].hots\"\nhint: did you mean upstreams[1].host?\n",
		"MODPROXY_LOG_LEVEL=loud":                        "MODPROXY_LOG_LEVEL: log.level: want debug, info, warn or error, not \"loud\"\n",
	} {
		t.Run(variable, func(t *testing.T) { checkErrors(t, "", []string{variable}, want) })
	}
}

func checkErrors(t *testing.T, text string, variables []string, want string) {
	t.Helper()
	file := writeFile(t, "modproxy.yaml", text)
	_, err := Load(file, variables, nil)
	if diff := cmp.Diff(want, strings.ReplaceAll(messages(err), file, "FILE")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// messages returns the mistakes of an [Error], one per line, with its hints.
func messages(err error) string {
	var text strings.Builder
	var wrong Error
	if !errors.As(err, &wrong) {
		return fmt.Sprintf("%v, which is no Error", err)
	}
	for _, mistake := range wrong {
		fmt.Fprintln(&text, mistake)
		for _, h := range hint.Of(mistake) {
			fmt.Fprintln(&text, "hint: "+h)
		}
	}
	return text.String()
}

// writeFile creates a file in a directory of the test.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
