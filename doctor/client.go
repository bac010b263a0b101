package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/tfconfig"
)

// Services of a host block.
const (
	modulesV1   = "modules.v1"
	providersV1 = "providers.v1"
	loginV1     = "login.v1"
)

// client examines the CLI configuration of a developer, and sends requests to the proxies that it names.
func (e *examination) client(ctx context.Context) (found []Finding) {
	cli, err := e.cli()
	if err != nil {
		return []Finding{finding("client_syntax", e.Client, "%v", err)}
	}
	if other := os.Getenv("TF_CLI_CONFIG_FILE"); other != "" && !isSame(other, e.Client) {
		found = append(found, finding("client_ignored", e.Client, "TF_CLI_CONFIG_FILE is %s, and clients read only that file", other))
	}
	blocks := blocksOf(cli)
	found = append(found, e.checkBlocks(blocks)...)
	for _, mirror := range cli.Mirrors {
		if !strings.HasPrefix(mirror, "https://") {
			found = append(found, finding("client_mirror", mirror, "clients want https for a network mirror"))
		}
	}
	answering := map[string]bool{}
	for _, base := range e.bases() {
		answering[base] = e.answersClients(ctx, base, &found)
	}
	for _, b := range blocks {
		found = append(found, e.checkToken(ctx, cli, b, answering[b.base])...)
	}
	return found
}

// isSame reports whether two names refer to the same file.
func isSame(a, b string) bool {
	one, errOne := os.Stat(a)
	other, errOther := os.Stat(b)
	return errOne == nil && errOther == nil && os.SameFile(one, other) || filepath.Clean(a) == filepath.Clean(b)
}

// hostBlock is a host block of a CLI configuration.
type hostBlock struct {
	host, name string            // the hostname, normalised and as written
	services   map[string]string // URLs by service
	base       string            // the URL of the proxy in the URLs of the services; empty if they are not URLs of a modproxy
}

func blocksOf(cli *tfconfig.CLI) (blocks []hostBlock) {
	for _, name := range slices.Sorted(maps.Keys(cli.Hosts)) {
		b := hostBlock{name: name, services: cli.Hosts[name]}
		b.host, _ = hostname.Parse(name) // a wrong name is not among the upstreams
		for _, path := range []string{"/" + b.host + "/v1/modules", "/v1/modules"} {
			if base, ok := strings.CutSuffix(strings.TrimRight(b.services[modulesV1], "/"), path); ok && b.base == "" {
				b.base = base
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// bases returns the URLs that clients use for the examined proxies: the URL of the configured proxy, or, if it is unknown, the URLs in the CLI
// configuration.
func (e *examination) bases() (all []string) {
	if own := e.ownBase(); own != "" {
		return []string{own}
	}
	if e.Client == "" {
		return nil
	}
	cli, err := e.cli()
	if err != nil {
		return nil // the check of the client reports it
	}
	for _, b := range blocksOf(cli) {
		if b.base != "" && !slices.Contains(all, b.base) {
			all = append(all, b.base)
		}
	}
	return all
}

// checkBlocks examines host blocks without sending requests.
func (e *examination) checkBlocks(blocks []hostBlock) (found []Finding) {
	own, leads := e.ownBase(), false
	missing := map[string]bool{}
	if own != "" && e.Config.IsSound("upstreams") {
		for _, host := range e.Config.UpstreamHosts() {
			missing[host] = true
		}
		if modules := e.Config.OwnHost(); modules != "" && !e.servesName(modules) {
			missing[modules] = true
		}
	}
	for _, b := range blocks {
		isOurs := missing[b.host]
		delete(missing, b.host)
		if b.base == "" && !isOurs {
			continue // the block of another service
		}
		leads = true
		if url := b.services[modulesV1]; isOurs && b.base != own {
			found = append(found, finding("client_url", b.name, "modules.v1 is %s, and this proxy is at %s", cmp.Or(url, "missing"), own))
			continue
		} else if own != "" && b.base == own && !isOurs && !e.Config.HasUpstream(b.host) {
			found = append(found, finding("client_url", b.name, "it is not among the upstreams of this proxy"))
			continue
		}
		switch isModules := e.Config != nil && b.host == e.Config.OwnHost(); {
		case isModules && b.services[providersV1] != "":
			found = append(found, finding("client_service", b.name, "own modules have no providers, and providers.v1 is %s", b.services[providersV1]))
		case !isModules && b.services[providersV1] == "":
			found = append(found, finding("client_service", b.name, "providers.v1 is missing"))
		}
		for _, name := range slices.Sorted(maps.Keys(b.services)) {
			if name != modulesV1 && name != providersV1 && name != loginV1 {
				found = append(found, finding("client_service", b.name, "clients would send the token for the host to %s", name))
			}
		}
	}
	switch rest := slices.Sorted(maps.Keys(missing)); {
	case !leads:
		found = append(found, finding("client_bypasses", e.Client, "no host block leads to a modproxy"))
	case len(rest) > 0:
		found = append(found, finding("client_bypasses", e.Client, "the host block is missing for %s", strings.Join(rest, ", ")))
	}
	return found
}

// servesName reports whether clients find this proxy by a hostname without a host block: its URL is the https URL of the name.
func (e *examination) servesName(host string) bool {
	at, isTLS := strings.CutPrefix(e.ownBase(), "https://")
	own, err := hostname.Parse(hostname.Display(at))
	return isTLS && err == nil && own == host
}

// answersClients reports whether a proxy answers, and adds its problem, unless another check reports it.
func (e *examination) answersClients(ctx context.Context, base string, found *[]Finding) bool {
	r := e.reach(ctx, base)
	switch {
	case r.problem == nil:
		return true
	case r.isReported:
	case base != e.ownBase():
		*found = append(*found, *r.problem)
	case !r.isFinal && e.serving == nil:
		e.skip("the client's token at "+base, "modproxy does not run")
	}
	return false
}

// checkToken examines the token that a client sends for a host.
func (e *examination) checkToken(ctx context.Context, cli *tfconfig.CLI, b hostBlock, isAnswering bool) []Finding {
	token := tokenFor(cli, b)
	if b.base != "" && b.base == e.ownBase() && token != "" {
		if f := e.checkScopes(token, b); f != nil {
			return []Finding{*f}
		}
	}
	if !isAnswering {
		return nil
	}
	status, said, err := askAsClient(ctx, b.services[modulesV1], token)
	switch {
	case err != nil:
		return []Finding{finding("url_unreachable", b.services[modulesV1], "%v", err)}
	case status == http.StatusMisdirectedRequest:
		return []Finding{finding("client_url", b.name, "%s", said)}
	case status != http.StatusUnauthorized:
		return nil // the status may be about this module only
	case token != "":
		return []Finding{finding("client_token", b.name, "%s", said)}
	}
	u, _ := url.Parse(b.base) // the URL has been requested, so it is valid
	if cli.Tokens[u.Host] != "" {
		said += fmt.Sprintf("; clients do not use the token for %s here", u.Host)
	}
	return []Finding{finding("client_no_token", b.name, "%s", said)}
}

// tokenFor returns the token that a client sends for the host of a block, or an empty string.
func tokenFor(cli *tfconfig.CLI, b hostBlock) string {
	if name := hostname.TokenVariable(b.host); name != "" && os.Getenv(name) != "" {
		return os.Getenv(name)
	}
	for name, token := range cli.Tokens {
		if host, err := hostname.Parse(name); err == nil && host == b.host {
			return token
		}
	}
	return ""
}

// checkScopes finds a token in the file of tokens. It returns a finding if the token is not valid, or if its scopes do not cover the host. It
// returns nil for a token of another issuer.
func (e *examination) checkScopes(token string, b hostBlock) *Finding {
	c := e.Config
	if !c.RequiresToken() || !c.IsSound("data", "auth", "anonymous", "trusted_proxies") || !strings.HasPrefix(token, "mp_") {
		return nil
	}
	tokens, err := auth.OpenTokens(c.TokensFile())
	if err != nil {
		return nil // the check of the tokens reports it
	}
	p, err := tokens.Verify(token, time.Now())
	if err != nil {
		f := finding("client_token", b.name, "%v", err)
		return &f
	}
	if !slices.ContainsFunc(p.Scopes, func(s auth.Scope) bool {
		return auth.Scopes{s}.Covers(modproxy.Address{Host: b.host, Namespace: s.Namespace})
	}) {
		f := finding("client_scope", b.name, "%s has no scope of the host", p)
		return &f
	}
	return nil
}

// askAsClient requests the versions of a module that does not exist, in the same way as a client. said is the text of the errors in the
// answer.
func askAsClient(ctx context.Context, modules, token string) (status int, said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(modules, "/")+"/modproxy/doctor/none/versions", nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 8<<10))
	var document struct{ Errors []string }
	if json.Unmarshal(text, &document) == nil {
		text = []byte(strings.Join(document.Errors, "; "))
	}
	return answer.StatusCode, cmp.Or(string(text), answer.Status), err
}
