package egress

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// environment is what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say now, and ALL_PROXY for
// what the first two do not. A setting that cannot be followed is an error, which
// shows nothing of it: without one, all that was to go through the proxy would go
// past it.
func environment() (func(*url.URL) (*url.URL, error), error) {
	cfg := httpproxy.FromEnvironment()
	all := cmp.Or(os.Getenv("ALL_PROXY"), os.Getenv("all_proxy"))
	for name, setting := range map[string]*string{"HTTPS_PROXY": &cfg.HTTPSProxy, "HTTP_PROXY": &cfg.HTTPProxy} {
		if *setting == "" && all != "" {
			name, *setting = "ALL_PROXY", all
		}
		if *setting == "" {
			continue
		}
		u, err := url.Parse(*setting)
		if err != nil || u.Scheme == "" || u.Host == "" { // host:port is a proxy by http
			u, err = url.Parse("http://" + *setting)
		}
		if err == nil {
			err = checkProxy(u)
		} else {
			err = errProxy
		}
		if err != nil {
			return nil, fmt.Errorf("egress: %s: %w", name, err)
		}
		*setting = u.String()
	}
	return cfg.ProxyFunc(), nil
}

var errProxy = errors.New("want the URL of a proxy, http://host:port, or with https, socks5 or socks5h")

// checkProxy wants a proxy that can be asked. Its error shows nothing of what may be
// a password.
func checkProxy(p *url.URL) error {
	if strings.Trim(p.Path, "/") != "" || p.Hostname() == "" || p.RawQuery != "" || p.Fragment != "" {
		return errProxy
	}
	switch p.Scheme {
	case "http", "https", "socks5", "socks5h":
		return nil
	}
	return fmt.Errorf("scheme %.20q: %w", p.Scheme, errProxy)
}
