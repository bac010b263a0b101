package config

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// reach finds destinations that egress would refuse: invalid exceptions, and upstreams, forges and mirrors that could never answer.
func (k *checker) reach() {
	if i := slices.IndexFunc(k.Egress.Allow, func(s string) bool { return strings.Contains(s, "@") }); i >= 0 {
		k.failIf(true, fmt.Sprintf("egress.allow[%d]", i), "want a hostname, not a URL") // the error omits the value, which may contain a credential
		return
	}
	policy, err := egress.New(egress.Config{Allow: k.Egress.Allow, Ports: k.Egress.Ports})
	if err != nil {
		if k.IsSound("egress") {
			k.wrong, k.paths = append(k.wrong, fmt.Errorf("%s: %w", k.Source("egress.allow"), err)), append(k.paths, "egress.allow")
		}
		return
	}
	if !k.IsSound("egress", "offline") {
		return
	}
	for i, s := range k.Sources {
		if m, err := fetch.ParseMirror(s.From, s.To); err == nil && !k.Offline {
			k.fail(fmt.Sprintf("sources[%d].to", i), k.reachForge(policy, m.URL()))
		}
	}
	for i, m := range k.Modules {
		mapping, err := m.parse()
		if err != nil || k.Offline {
			continue
		}
		k.fail(fmt.Sprintf("modules[%d].source", i), k.reachForge(policy, mapping.Origin(k.Mirrors())))
	}
	for i, u := range k.Upstreams {
		for _, set := range [][2]string{{"modules", u.Modules}, {"providers", u.Providers}, {"docs", u.Docs}} {
			if at, err := url.Parse(set[1]); err == nil && !k.Offline && CheckURL(set[1]) == nil {
				k.fail(fmt.Sprintf("upstreams[%d].%s", i, set[0]), policy.Check(context.Background(), at))
			}
		}
	}
}

// reachForge returns an error if modproxy could never connect to a forge or a mirror.
func (k *checker) reachForge(policy *egress.Client, u *url.URL) error {
	if u.Scheme != "ssh" {
		return policy.Check(context.Background(), u)
	}
	has := func(c Credential) bool { return c.Host == u.Hostname() && c.SSHKeyFile != "" }
	if k.IsSound("credentials") && !slices.ContainsFunc(k.Credentials, has) {
		return fmt.Errorf("credentials[] has no SSH key for %s", u.Hostname())
	}
	port := cmp.Or(u.Port(), "22")
	return policy.Check(context.Background(), &url.URL{Scheme: "https", Host: u.Hostname() + ":" + port})
}
