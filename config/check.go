package config

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/hostname"
)

// checker collects what is wrong with values that are well formed each by itself.
type checker struct {
	*Config
	wrong Error
}

// fail adds err, unless it is nil, with the key and the place that set it.
func (k *checker) fail(path string, err error) {
	if err != nil {
		k.wrong = append(k.wrong, fmt.Errorf("%s: %s: %w", k.Source(path), path, err))
	}
}

func (k *checker) failIf(wrong bool, path, format string, args ...any) {
	if wrong {
		k.fail(path, fmt.Errorf(format, args...))
	}
}

// check finds everything that is wrong with c, and normalises its hostnames.
func (c *Config) check() Error {
	k := &checker{Config: c}
	k.fields()
	_, err := parseListen(c.Listen)
	k.fail("listen", err)
	k.failIf(c.TLS.CertFile == "" && c.TLS.KeyFile != "", "tls.key_file", "tls.cert_file is missing")
	k.failIf(c.TLS.CertFile != "" && c.TLS.KeyFile == "", "tls.cert_file", "tls.key_file is missing")
	known := slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level)
	k.failIf(!known, "log.level", "want debug, info, warn or error, not %.80q", c.Log.Level)
	k.authentication()
	for i, u := range c.Upstreams {
		more := u.Modules != "" || u.Providers != "" || !u.Token.IsZero() || u.TokenFile != ""
		k.failIf(u.Host == "*" && more, fmt.Sprintf("upstreams[%d]", i),
			`only the rate can be set for "*": a registry with more needs an entry of its own`)
	}
	for i, r := range c.Routes {
		at := fmt.Sprintf("routes[%d]", i)
		k.fail(at+".namespace", modproxy.Module{Namespace: r.Namespace, Name: "x", System: "x"}.Check())
		known := slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.Host == r.Upstream })
		k.failIf(r.Upstream != "" && !known, at+".upstream", "%.80q is not one of the upstreams", r.Upstream)
	}
	for i, s := range c.Credentials {
		at, password := fmt.Sprintf("credentials[%d]", i), !s.Password.IsZero() || s.PasswordFile != ""
		k.failIf(!password && s.Username != "", at+".username", "password is missing")
		k.failIf(!password && s.Username == "" && s.SSHKeyFile == "", at, "want a password or an SSH key")
		k.failIf((s.SSHKeyFile == "") != (s.KnownHostsFile == ""), at, "want both ssh_key_file and known_hosts_file, or neither")
	}
	k.reach()
	k.failIf(c.Ledger.Recheck != 0 && c.Ledger.Recheck < time.Minute, "ledger.recheck", "must be 0s or at least 1m")
	k.failIf(c.Cache.MaxStale < c.Cache.Fresh, "cache.max_stale", "must not be less than cache.fresh")
	return k.wrong
}

var index = regexp.MustCompile(`\[\d+\]`)

// fields holds every field to the rules in its tag check.
func (k *checker) fields() {
	seen := map[string]bool{}
	walk("", reflect.ValueOf(k.Config).Elem(), func(path string, f reflect.StructField, v, group reflect.Value) {
		if secret, ok := v.Interface().(egress.Secret); ok && fileOf(f, group) != "" {
			k.failIf(!secret.IsZero(), path, "%s and %s_file are both set", keyName(f), keyName(f))
		}
		for rule := range strings.SplitSeq(f.Tag.Get("check"), ",") {
			wrong, why := false, ""
			switch rule {
			case "positive":
				wrong, why = v.Int() <= 0, "must be more than 0"
			case "natural":
				wrong, why = v.Int() < 0, "must not be less than 0"
			case "required":
				wrong, why = v.Len() == 0, "missing"
			case "url":
				if err := CheckURL(v.String()); v.String() != "" {
					k.fail(path, err)
				}
			case "host":
				host, err := normalise(v.String())
				if err != nil {
					k.fail(path, err)
					return
				}
				v.SetString(host)
			case "unique":
				at := index.ReplaceAllString(path, "") + " " + v.String()
				wrong, why = seen[at], fmt.Sprintf("%.200s appears twice", v)
				seen[at] = true
			}
			k.failIf(wrong, path, "%s", why)
		}
	})
}

// normalise returns a hostname, or "*", in its normalised spelling.
func normalise(host string) (string, error) {
	switch {
	case host == "*":
		return host, nil
	case host == "":
		return "", errors.New("missing")
	case strings.ContainsAny(host, "@/"):
		return "", errors.New("want a hostname, not a URL") // which may carry a credential
	}
	return hostname.Parse(host)
}

// authentication finds rules about clients that would not count.
func (k *checker) authentication() {
	open := ""
	if k.Anonymous {
		open = fmt.Sprintf("clients show no credential, by anonymous: true (%s)", k.Source("anonymous"))
	} else if !k.RequiresToken() {
		open = "clients show no credential on a loopback address: say auth.required: true"
	}
	k.failIf(k.Anonymous && k.Auth.Required, "auth.required", "%s", open)
	k.failIf(open != "" && len(k.Auth.Issuers) > 0, "auth.issuers", "%s", open)
	k.fail("auth.signed_paths", auth.SignerConfig{Life: k.Auth.SignedPaths}.Check())
	for i, issuer := range k.Auth.Issuers {
		k.fail(fmt.Sprintf("auth.issuers[%d]", i), issuer.Check())
	}
}

// reach finds what egress would refuse: its own exceptions, and upstreams that would never answer.
func (k *checker) reach() {
	if i := slices.IndexFunc(k.Egress.Allow, func(s string) bool { return strings.Contains(s, "@") }); i >= 0 {
		k.failIf(true, fmt.Sprintf("egress.allow[%d]", i), "want a hostname, not a URL") // which may carry a credential
		return
	}
	policy, err := egress.New(egress.Config{Allow: k.Egress.Allow, Ports: k.Egress.Ports})
	if err != nil {
		k.wrong = append(k.wrong, fmt.Errorf("%s: %w", k.Source("egress.allow"), err))
		return
	}
	for i, u := range k.Upstreams {
		if at, err := url.Parse(u.Modules); err == nil && !k.Offline && CheckURL(u.Modules) == nil {
			k.fail(fmt.Sprintf("upstreams[%d].modules", i), policy.Check(context.Background(), at))
		}
	}
}
