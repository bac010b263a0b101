package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/hint"
)

// checker collects mistakes in values that are each well formed.
type checker struct {
	*Config
	wrong Error
	paths []string // the known paths of wrong
}

// fail adds err with its key and source, unless err is nil. It skips keys with malformed values, which were reported before.
func (k *checker) fail(path string, err error) {
	top, _, _ := strings.Cut(path, ".")
	top, _, _ = strings.Cut(top, "[")
	if err != nil && k.IsSound(top) {
		k.paths = append(k.paths, path)
		k.wrong = append(k.wrong, fmt.Errorf("%s: %s: %w", k.Source(path), path, err))
	}
}

func (k *checker) failIf(wrong bool, path, format string, args ...any) {
	if wrong {
		k.fail(path, fmt.Errorf(format, args...))
	}
}

// check finds all mistakes in c, and normalises its hostnames.
func (c *Config) check() *checker {
	k := &checker{Config: c}
	k.fields()
	_, err := parseListen(c.Listen)
	k.fail("listen", err)
	k.failIf(err == nil && c.Offline && !listensByAddress(c.Listen), "listen",
		"a hostname needs a name server, and modproxy is offline: want an address, such as 127.0.0.1:8080")
	k.failIf(c.TLS.CertFile == "" && c.TLS.KeyFile != "", "tls.key_file", "tls.cert_file is missing")
	k.failIf(c.TLS.CertFile != "" && c.TLS.KeyFile == "", "tls.cert_file", "tls.key_file is missing")
	k.authentication()
	for i, u := range c.Upstreams {
		more := u.Modules != "" || u.Providers != "" || u.Docs != "" || u.Private || !u.Token.IsZero() || u.TokenFile != ""
		k.failIf(u.Host == "*" && more, fmt.Sprintf("upstreams[%d]", i),
			`only the rate can be set for "*": a registry with more needs an entry of its own`)
	}
	for i, r := range c.Routes {
		at := fmt.Sprintf("routes[%d]", i)
		k.fail(at+".namespace", modproxy.Address{Namespace: r.Namespace, Name: "x", System: "x"}.Check())
		known := !c.IsSound("upstreams") || slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.Host == r.Upstream })
		k.failIf(r.Upstream != "" && !known, at+".upstream", "%.80q is not one of the upstreams", r.Upstream)
	}
	k.ownModules()
	k.webhooks()
	for i, s := range c.Credentials {
		at, password := fmt.Sprintf("credentials[%d]", i), !s.Password.IsZero() || s.PasswordFile != ""
		k.failIf(!password && s.Username != "", at+".username", "password is missing")
		k.failIf(!password && s.Username == "" && s.SSHKeyFile == "", at, "want a password or an SSH key")
		k.failIf((s.SSHKeyFile == "") != (s.KnownHostsFile == ""), at, "want both ssh_key_file and known_hosts_file, or neither")
		if s.TokenHost != "" {
			host, err := normalise(s.TokenHost)
			if err == nil && host == "*" {
				err = errors.New("want a hostname")
			}
			k.fail(at+".token_host", err)
			k.failIf(!password, at+".token_host", "password is missing")
			c.Credentials[i].TokenHost = host
		}
	}
	for i, s := range c.Providers.Keys {
		at := fmt.Sprintf("providers.keys[%d]", i)
		k.failIf(!s.Provider.IsOfProviders(), at+".provider", "want host/namespace/type, where * matches a segment or part of one")
		k.failIf(len(s.Fingerprints) == 0, at+".fingerprints", "missing")
		_, err := modproxy.NewKeys(s.Fingerprints...)
		k.fail(at+".fingerprints", err)
	}
	for i, m := range c.Mirror {
		at := fmt.Sprintf("mirror[%d]", i)
		set := slices.DeleteFunc([]string{m.Dir, m.List, m.Lock}, func(s string) bool { return s == "" })
		k.failIf(len(set) != 1, at, "want one of dir, list and lock")
		k.failIf(m.Client != "" && m.Dir == "", at+".client", "goes with dir")
		k.failIf(m.Every != 0 && m.Every < time.Minute, at+".every", "must be at least 1m")
	}
	k.mirrors()
	k.reach()
	k.failIf(c.Ledger.Recheck != 0 && c.Ledger.Recheck < time.Minute, "ledger.recheck", "must be 0s or at least 1m")
	k.failIf(c.Rewrite.Nested && c.PublicURL == "" && c.IsSound("public_url"), "rewrite.nested",
		"public_url is missing: packages have addresses below it in them")
	k.failIf(c.Cache.MaxStale < c.Cache.Fresh, "cache.max_stale", "must not be less than cache.fresh")
	return k
}

// complete checks c, and then reads the secrets from their files. The error is an [Error].
func (c *Config) complete() error {
	k := c.check()
	walk("", reflect.ValueOf(c).Elem(), func(path string, f reflect.StructField, v, group reflect.Value) {
		if secret, ok := v.Addr().Interface().(*egress.Secret); ok && secret.IsZero() && fileOf(f, group) != "" {
			text, err := c.readFile(fileOf(f, group))
			*secret = egress.NewSecret(strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"))
			if err == nil && secret.IsZero() {
				err = fmt.Errorf("%s: the file is empty", fileOf(f, group))
			}
			k.fail(path+"_file", err)
		}
	})
	for _, path := range k.paths {
		c.markUnsound(path)
	}
	if len(k.wrong) > 0 {
		return k.wrong
	}
	return nil
}

var index = regexp.MustCompile(`\[\d+\]`)

// fields checks every field by the rules in its tags check and words.
func (k *checker) fields() {
	seen := map[string]bool{}
	walk("", reflect.ValueOf(k.Config).Elem(), func(path string, f reflect.StructField, v, group reflect.Value) {
		if secret, ok := v.Interface().(egress.Secret); ok && fileOf(f, group) != "" {
			k.failIf(!secret.IsZero(), path, "%s and %s_file are both set", keyName(f), keyName(f))
		}
		if words := f.Tag.Get("words"); words != "" && (v.String() != "" || f.Tag.Get("default") != "") {
			k.word(path, v.String(), strings.Split(words, ",")...)
		}
		for rule := range strings.SplitSeq(f.Tag.Get("check"), ",") {
			switch rule {
			case "positive":
				k.failIf(v.Int() <= 0, path, "must be more than 0")
			case "natural":
				k.failIf(v.Int() < 0, path, "must not be less than 0")
			case "required":
				k.failIf(v.Len() == 0, path, "missing")
			case "url":
				if err := CheckURL(v.String()); v.String() != "" {
					k.fail(path, err)
				}
			case "line":
				long, control := len(v.String()) > maxLine, strings.ContainsFunc(v.String(), unicode.IsControl)
				k.failIf(long || control, path, "want one line of at most %d bytes", maxLine)
			case "host":
				host, err := normalise(v.String())
				if err != nil {
					k.fail(path, err)
					return
				}
				v.SetString(host)
			case "unique":
				at := index.ReplaceAllString(path, "") + " " + v.String()
				k.failIf(seen[at], path, "%.200s appears twice", v)
				seen[at] = true
			}
		}
	})
}

// maxLine is the maximum length of a value in a line that clients print, in bytes.
const maxLine = 200

// normalise returns the normalised spelling of a hostname or "*".
func normalise(host string) (string, error) {
	switch {
	case host == "*":
		return host, nil
	case host == "":
		return "", errors.New("missing")
	case strings.ContainsAny(host, "@/"):
		return "", errors.New("want a hostname, not a URL") // the error omits host, which may contain a credential
	}
	return hostname.Parse(host)
}

// authentication finds settings for authentication that would have no effect.
func (k *checker) authentication() {
	open := ""
	if !k.IsSound("anonymous", "listen", "public_url", "tls") {
		// unknown whether clients need a credential
	} else if k.Anonymous.All {
		open = fmt.Sprintf("clients send no credential, because of anonymous: true (%s)", k.Source("anonymous"))
	} else if !k.RequiresToken() {
		open = "clients send no credential to a loopback address: set auth.required: true"
	}
	k.failIf(k.Anonymous.All && k.Auth.Required, "auth.required", "%s", open)
	k.failIf(open != "" && len(k.Auth.Issuers) > 0, "auth.issuers", "%s", open)
	k.failIf(k.Offline && len(k.Auth.Issuers) > 0, "auth.issuers",
		`modproxy is offline and cannot request the keys of issuers: remove them, and give clients tokens of "modproxy token create"`)
	k.fail("auth.signed_paths", auth.SignerConfig{Life: k.Auth.SignedPaths}.Check())
	login := ""
	for i, issuer := range k.Auth.Issuers {
		at := fmt.Sprintf("auth.issuers[%d]", i)
		k.fail(at, issuer.Check())
		if issuer.Login.IsSet() {
			k.failIf(login != "", at+".login", "%s has a login already, and clients use only one", login)
			login = at
		}
	}
}

// mirrors finds sources that are malformed or never match.
func (k *checker) mirrors() {
	var all fetch.Mirrors
	var at []string
	for i, s := range k.Sources {
		path := fmt.Sprintf("sources[%d]", i)
		m, err := fetch.ParseMirror(s.From, s.To)
		if s.From == "" || s.To == "" {
			continue // the fields are required
		}
		k.fail(path, err)
		if err != nil {
			continue
		}
		if hides := slices.IndexFunc(all, func(earlier fetch.Mirror) bool { return earlier.Covers(m) }); hides >= 0 {
			k.failIf(true, path, "it never matches: %s (%s) matches the same locations before", at[hides], k.Source(at[hides]))
		}
		all, at = append(all, m), append(at, path)
	}
}

// RequiresToken reports whether clients need a credential.
func (c *Config) RequiresToken() bool { return c.RequiresTokenBecause() != "" }

// RequiresTokenBecause returns the reason why clients need a credential, or an empty string if they do not. They need none if
// anonymous is true. Otherwise they need one if one of these holds: auth.required is true; listen is not a loopback address;
// public_url is not the URL of this machine; trusted_proxies are set; or anonymous has scopes, which are then the exceptions.
func (c *Config) RequiresTokenBecause() string {
	loopback, err := parseListen(c.Listen)
	switch {
	case c.Anonymous.All:
		return ""
	case c.Auth.Required:
		return "auth.required is true"
	case err != nil || !loopback:
		return "other machines can reach " + c.Listen
	case c.PublicURL != "" && !IsLocalURL(c.PublicURL):
		return "other machines use it: public_url is " + c.PublicURL
	case len(c.TrustedProxies) > 0:
		return "trusted_proxies forward requests of other machines"
	case len(c.Anonymous.Scopes) > 0:
		return "anonymous has scopes, and everything else needs a token"
	}
	return ""
}

// IsLocal reports whether only programs on this machine can connect: listen is a loopback address, and neither public_url nor
// trusted_proxies says that requests of other machines are passed on.
func (c *Config) IsLocal() bool {
	alone := *c
	alone.Anonymous, alone.Auth.Required = Anonymous{}, false
	return !alone.RequiresToken()
}

// BaseURL returns the URL of this proxy for clients, without a slash at its end.
func (c *Config) BaseURL() (string, error) {
	if c.PublicURL != "" {
		return strings.TrimRight(c.PublicURL, "/"), nil
	}
	return c.LocalURL()
}

// LocalURL returns the URL of the proxy for this machine.
func (c *Config) LocalURL() (string, error) {
	if _, err := parseListen(c.Listen); err != nil {
		return "", Error{fmt.Errorf("listen: %w", err)}
	}
	host, port, _ := net.SplitHostPort(c.Listen)
	if port == "0" {
		return "", Error{hint.With(errors.New("the port is not known: listen takes any free one"), "say --url")}
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http://"
	if c.TLS.CertFile != "" {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port), nil
}

// CheckURL returns an error unless s is an absolute URL to which paths can be added. The error does not contain s, which may
// contain a credential.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("want an absolute URL, such as https://modules.example.com")
	case u.User != nil:
		return errors.New("must not have a username or password in it")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#"):
		return errors.New("must not have a query or fragment")
	case u.Port() != "" && !isPort(u.Port()):
		return fmt.Errorf("invalid port %.80q", u.Port())
	}
	return nil
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// IsLocalURL reports whether the host of a URL is localhost or a loopback address.
func IsLocalURL(base string) bool {
	u, err := url.Parse(base)
	return err == nil && hostname.IsLocal(u.Hostname())
}

// parseListen parses an address to listen on, and reports whether only this machine can reach it.
func parseListen(s string) (loopback bool, err error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false, fmt.Errorf("want an address and a port, such as 127.0.0.1:8080, not %.80q", s)
	}
	if !isPort(port) {
		return false, fmt.Errorf("want a port from 0 to 65535, not %.80q", port)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback(), nil
	}
	if host != "" && host != "localhost" {
		_, err = hostname.Parse(host)
	}
	return host == "localhost", err
}

// listensByAddress reports whether an address to listen on needs no name look-up.
func listensByAddress(s string) bool {
	host, _, _ := net.SplitHostPort(s)
	_, err := netip.ParseAddr(host)
	return err == nil || host == ""
}

// HasUpstream reports whether modproxy may contact the registry with that name, or whether it has the own modules.
func (c *Config) HasUpstream(host string) bool {
	return host != "" && host == c.OwnHost() || slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.Host == host || u.Host == "*" })
}

// UpstreamHosts returns the hosts of the upstreams, without "*".
func (c *Config) UpstreamHosts() (hosts []string) {
	for _, u := range c.Upstreams {
		if u.Host != "*" {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

// ContactText returns the contact for people, which may be empty.
func (c *Config) ContactText() string { return cmp.Or(c.Contact, c.Policy.Contact) }

// Deprecated returns an error that names the deprecated keys in use, with their new names, or nil.
func (c *Config) Deprecated() error {
	if c.Policy.Contact == "" {
		return nil
	}
	return fmt.Errorf("%s: policy.contact is the old name of contact, at the top of the configuration: write that instead", c.Source("policy.contact"))
}

// IsOpen reports whether clients may learn that the modules of a registry are outside their scopes: the upstream is not private, and has
// no token. See [Upstream.Private]. Own modules are private.
func (c *Config) IsOpen(host string) bool {
	return host != c.OwnHost() && !slices.ContainsFunc(c.Upstreams, func(u Upstream) bool {
		return u.Host == host && (u.Private || !u.Token.IsZero() || u.TokenFile != "")
	})
}

// TofuHost is the public registry of OpenTofu. The API at https://api.opentofu.org describes its modules and providers.
const (
	TofuHost = "registry.opentofu.org"
	tofuDocs = "https://api.opentofu.org"
)

// PublicRegistries are the registries at which anybody can register a namespace, and the host of the descriptions of their
// modules.
var PublicRegistries = []string{"registry.terraform.io", TofuHost, "api.opentofu.org"}

// DocsURL returns Docs, or its default for the host.
func (u Upstream) DocsURL() string {
	if u.Docs == "" && u.Host == TofuHost && u.Modules == "" && u.Providers == "" {
		return tofuDocs
	}
	return u.Docs
}

// DefaultHost returns the registry of modules that are requested without a host, or an empty string.
func (c *Config) DefaultHost() string {
	for _, u := range c.Upstreams {
		if u.Host != "*" {
			return u.Host
		}
	}
	return ""
}

// LedgerDir returns the directory of the ledger in the data directory.
func (c *Config) LedgerDir() string { return filepath.Join(c.Data, "ledger") }

// TokensFile returns the path of the file with the tokens.
func (c *Config) TokensFile() string { return filepath.Join(c.Data, "auth", "tokens.json") }

// KeyFile returns the path of the key that signs package paths.
func (c *Config) KeyFile() string { return filepath.Join(c.Data, "auth", "key") }
