package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/upstream/tags"
)

// ownModules finds mistakes in modules and modules_host, and normalises modules_host.
func (k *checker) ownModules() {
	if k.ModulesHost != "" {
		host, err := normalise(k.ModulesHost)
		if err == nil && host == "*" {
			err = errors.New("want a hostname")
		}
		if err != nil {
			k.fail("modules_host", err)
			return
		}
		k.ModulesHost = host
	}
	if len(k.Modules) == 0 || !k.IsSound("modules", "modules_host", "public_url", "upstreams", "routes") {
		return
	}
	own := k.OwnHost()
	k.failIf(own == "", "modules", "set modules_host, the host in the addresses of these modules, or public_url")
	at := "modules_host"
	if k.ModulesHost == "" {
		at = "public_url"
	}
	isUpstream := slices.ContainsFunc(k.Upstreams, func(u Upstream) bool { return u.Host == own })
	k.failIf(own != "" && (isUpstream || slices.Contains(PublicRegistries, own)), at,
		"own modules cannot have the host of a registry, %s: set modules_host to another name", own)
	spelled := map[string]string{} // by folded namespace
	for i, m := range k.Modules {
		mapping, err := m.parse()
		k.fail(fmt.Sprintf("modules[%d]", i), err)
		if err != nil {
			return
		}
		namespace := mapping.Namespace()
		folded := strings.ToLower(namespace)
		if before, ok := spelled[folded]; ok && before != namespace {
			k.failIf(true, fmt.Sprintf("modules[%d].address", i), "the namespaces %s and %s differ only in case", before, namespace)
		}
		spelled[folded] = namespace
	}
	for i, r := range k.Routes {
		namespace, isOwn := spelled[strings.ToLower(r.Namespace)]
		k.failIf(isOwn, fmt.Sprintf("routes[%d].namespace", i), "modules has modules of namespace %s, which cannot have a route, too", namespace)
	}
	_, err := tags.New(tags.Config{Host: own, Modules: k.Mappings()})
	k.fail("modules", err)
}

// webhookID matches the ID of a webhook.
var webhookID = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)

// webhooks finds mistakes in webhooks.
func (k *checker) webhooks() {
	for i, w := range k.Webhooks {
		at := fmt.Sprintf("webhooks[%d]", i)
		k.failIf(!webhookID.MatchString(w.ID), at+".id", "want 1 to 64 letters, digits, - and _")
		k.failIf(w.Secret.IsZero() && w.SecretFile == "", at, "want secret or secret_file: without a secret, anybody could send webhooks")
	}
	k.failIf(len(k.Webhooks) > 0 && len(k.Modules) == 0 && k.IsSound("modules"), "webhooks", "they have no effect without modules")
}

// parse returns the mapping of m.
func (m Module) parse() (tags.Mapping, error) {
	return tags.ParseMapping(m.Address, m.Source, m.Path, m.Tags)
}

// Mappings returns the parsed entries of Modules, which have been checked.
func (c *Config) Mappings() (all []tags.Mapping) {
	for _, m := range c.Modules {
		if mapping, err := m.parse(); err == nil {
			all = append(all, mapping)
		}
	}
	return all
}

// OwnHost returns the host in the addresses of own modules: modules_host, or the host of public_url if there are modules. Otherwise it
// is empty.
func (c *Config) OwnHost() string {
	if len(c.Modules) == 0 {
		return c.ModulesHost
	}
	return c.FutureOwnHost()
}

// FutureOwnHost returns the host that own modules have, or would have if there were any: modules_host, or the host of public_url.
func (c *Config) FutureOwnHost() string {
	if c.ModulesHost != "" {
		return c.ModulesHost
	}
	if at, err := url.Parse(c.PublicURL); err == nil && at.Host != "" {
		if host, err := hostname.Parse(hostname.Display(at.Host)); err == nil {
			return host
		}
	}
	return ""
}

// OwnNamespaces returns the namespaces of own modules, each once, in the order of Modules.
func (c *Config) OwnNamespaces() (all []string) {
	for _, m := range c.Modules {
		namespace, _, _ := strings.Cut(m.Address, "/")
		if !slices.Contains(all, namespace) {
			all = append(all, namespace)
		}
	}
	return all
}
