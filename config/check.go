package config

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/auth/oidc"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/hostname"
)

// checker collects what is wrong with values that are well formed each by itself.
type checker struct {
	*Config
	wrong Error
}

// check finds everything that is wrong with c, and normalises its hostnames.
func (c *Config) check() Error {
	k := &checker{Config: c}
	k.fields()
	k.listener()
	k.authentication()
	for i, u := range c.Upstreams {
		if u.Host == "*" && (u.Modules != "" || u.Providers != "" || !u.Token.IsZero() || u.TokenFile != "") {
			k.fail(fmt.Sprintf("upstreams[%d]", i), `only the rate can be set for "*": a registry with more needs an entry of its own`)
		}
	}
	for i, r := range c.Routes {
		if err := (modproxy.Module{Namespace: r.Namespace, Name: "x", System: "x"}).Check(); err != nil {
			k.fail(fmt.Sprintf("routes[%d].namespace", i), "%w", err)
		}
		if r.Upstream != "" && !slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.Host == r.Upstream }) {
			k.fail(fmt.Sprintf("routes[%d].upstream", i), "%.80q is not one of the upstreams", r.Upstream)
		}
	}
	for i := range c.Credentials {
		k.credential(fmt.Sprintf("credentials[%d]", i), &c.Credentials[i])
	}
	k.reach()
	if c.Ledger.Recheck != 0 && c.Ledger.Recheck < time.Minute {
		k.fail("ledger.recheck", "must be 0s or at least 1m")
	}
	if c.Cache.MaxStale < c.Cache.Fresh {
		k.fail("cache.max_stale", "must not be less than cache.fresh")
	}
	return k.wrong
}

func (k *checker) fail(path, format string, args ...any) {
	k.wrong = append(k.wrong, k.mistake(path, fmt.Errorf(format, args...)))
}

// mistake returns err with the key and the place that set it.
func (c *Config) mistake(path string, err error) error {
	return fmt.Errorf("%s: %s: %w", c.Source(path), path, err)
}

var index = regexp.MustCompile(`\[\d+\]`)

// fields holds every field to the rules in its tag check.
func (k *checker) fields() {
	seen := map[string]bool{}
	walk("", reflect.ValueOf(k.Config).Elem(), func(path string, f reflect.StructField, v, group reflect.Value) {
		if secret, ok := v.Interface().(egress.Secret); ok && !secret.IsZero() && fileOf(f, group) != "" {
			k.fail(path, "%s and %s_file are both set", keyName(f), keyName(f))
		}
		for rule := range strings.SplitSeq(f.Tag.Get("check"), ",") {
			var err error
			switch rule {
			case "positive":
				if v.Int() <= 0 {
					err = errors.New("must be more than 0")
				}
			case "natural":
				if v.Int() < 0 {
					err = errors.New("must not be less than 0")
				}
			case "required":
				if v.Len() == 0 {
					err = errors.New("missing")
				}
			case "url":
				if v.String() != "" {
					err = CheckURL(v.String())
				}
			case "host":
				err = normalise(v)
			case "unique":
				at := index.ReplaceAllString(path, "") + " " + v.String()
				if seen[at] {
					err = fmt.Errorf("%.200s appears twice", v)
				}
				seen[at] = true
			}
			if err != nil {
				k.fail(path, "%w", err)
				return
			}
		}
	})
}

// normalise normalises a hostname, or "*".
func normalise(host reflect.Value) error {
	switch s := host.String(); {
	case s == "*":
	case s == "":
		return errors.New("missing")
	case strings.ContainsAny(s, "@/"):
		return errors.New("want a hostname, not a URL") // which may carry a credential
	default:
		normalised, err := hostname.Parse(s)
		if err != nil {
			return err
		}
		host.SetString(normalised)
	}
	return nil
}

func (k *checker) listener() {
	if _, err := parseListen(k.Listen); err != nil {
		k.fail("listen", "%w", err)
	}
	switch {
	case k.TLS.CertFile == "" && k.TLS.KeyFile != "":
		k.fail("tls.key_file", "tls.cert_file is missing")
	case k.TLS.CertFile != "" && k.TLS.KeyFile == "":
		k.fail("tls.cert_file", "tls.key_file is missing")
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, k.Log.Level) {
		k.fail("log.level", "want debug, info, warn or error, not %.80q", k.Log.Level)
	}
}

// authentication finds rules about clients that would not count.
func (k *checker) authentication() {
	open := ""
	if k.Anonymous {
		open = fmt.Sprintf("clients show no credential, by anonymous: true (%s)", k.Source("anonymous"))
	} else if !k.RequiresToken() {
		open = "clients show no credential on a loopback address: say auth.required: true"
	}
	if k.Anonymous && k.Auth.Required {
		k.fail("auth.required", "%s", open)
	}
	if open != "" && len(k.Auth.Issuers) > 0 {
		k.fail("auth.issuers", "%s", open)
	}
	if err := (auth.SignerConfig{Life: k.Auth.SignedPaths}).Check(); err != nil {
		k.fail("auth.signed_paths", "%w", err)
	}
	for i, issuer := range k.Auth.Issuers {
		path := fmt.Sprintf("auth.issuers[%d]", i)
		for j, g := range issuer.Groups {
			if len(g.Scopes) == 0 && !g.Admin {
				k.fail(fmt.Sprintf("%s.groups[%d]", path, j), "it allows nothing: want scopes or admin: true")
			}
			if _, err := parseMatch(g.Match); err != nil {
				k.fail(fmt.Sprintf("%s.groups[%d].match", path, j), "%w", err)
			}
		}
		one := Auth{Issuers: []Issuer{issuer}}
		if issuers, err := one.OIDC(); err == nil {
			if _, err := oidc.New(oidc.Config{Issuers: issuers, Transport: http.DefaultTransport}); err != nil {
				k.fail(path, "%w", err)
			}
		}
	}
}

func (k *checker) credential(path string, c *Credential) {
	password := !c.Password.IsZero() || c.PasswordFile != ""
	switch {
	case !password && c.Username != "":
		k.fail(path+".username", "password is missing")
	case !password && c.SSHKeyFile == "":
		k.fail(path, "want a password or an SSH key")
	}
	if (c.SSHKeyFile == "") != (c.KnownHostsFile == "") {
		k.fail(path, "want both ssh_key_file and known_hosts_file, or neither")
	}
}

// reach finds what egress would refuse: its own exceptions, and upstreams that no client
// would get an answer from.
func (k *checker) reach() {
	for i, allowed := range k.Egress.Allow {
		if strings.Contains(allowed, "@") { // a URL with a credential, which must not be shown
			k.fail(fmt.Sprintf("egress.allow[%d]", i), "want a hostname, not a URL")
			return
		}
	}
	policy, err := egress.New(egress.Config{Allow: k.Egress.Allow, Ports: k.Egress.Ports})
	if err != nil {
		k.wrong = append(k.wrong, fmt.Errorf("%s: %w", k.Source("egress.allow"), err))
		return
	}
	for i, u := range k.Upstreams {
		if at, err := url.Parse(u.Modules); u.Modules != "" && !k.Offline && err == nil && CheckURL(u.Modules) == nil {
			if err := policy.Check(context.Background(), at); err != nil {
				k.fail(fmt.Sprintf("upstreams[%d].modules", i), "%w", err)
			}
		}
	}
}
