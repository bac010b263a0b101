package upstream

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch/archive"
)

// source is an http or https location, taken apart.
type source struct {
	url      *url.URL           // without user information, archive and checksum
	user     *egress.Credential // what the user information says, bound to url's origin
	format   archive.Format
	archive  bool // format is known: the URL names an archive
	direct   bool // an archive whose format its first bytes tell
	own      bool // the registry wants to be shown its own token
	checksum *archive.Checksum
}

// parseSource reads an http or https location. The arguments archive and
// checksum are the client's and never sent (go-getter's client.go); the rest of
// the query stays as it is.
func parseSource(raw string, direct bool) (source, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return source{}, fmt.Errorf("%w: not a URL", modproxy.ErrInvalid) // its text may be secret
	}
	s := source{url: u, direct: direct}
	if u.User != nil {
		password, _ := u.User.Password()
		s.user = &egress.Credential{Authorization: basic(u.User.Username(), password)}
		u.User = nil
		s.user.Origin = egress.Origin(u)
	}
	if direct {
		return s, nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return source{}, fmt.Errorf("%w: the query of the URL", modproxy.ErrInvalid)
	}
	s.format, s.archive = archive.FormatOf(u.Path, query.Get("archive"))
	if sum := query.Get("checksum"); sum != "" {
		if s.checksum, err = archive.ParseChecksum(sum); err != nil {
			return source{}, err
		}
		if !s.archive {
			return source{}, fmt.Errorf("%w: a checksum for what is no archive", modproxy.ErrInvalid)
		}
	}
	u.RawQuery = without(u.RawQuery, "archive", "checksum")
	return s, nil
}

// without is a query without some keys; the rest keeps its order and encoding.
func without(query string, keys ...string) string {
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		drop := pair == ""
		for _, key := range keys {
			drop = drop || name == key
		}
		if !drop {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

// basic is the value of an Authorization header (RFC 7617).
func basic(username, password string) egress.Secret {
	return egress.NewSecret("Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password)))
}
