package web

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch/archive"
)

// address is an http or https location, taken apart.
type address struct {
	url      *url.URL           // without user information, archive and checksum
	user     *egress.Credential // what the user information says, bound to url's origin
	format   archive.Format     // empty for what is no archive by its URL
	checksum *archive.Checksum
}

// parse reads an http or https location. The arguments archive and checksum are the client's and never sent
// (go-getter's client.go); the rest of the query stays as it is. A direct location has no such arguments.
func parse(raw string, direct bool) (address, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return address{}, fmt.Errorf("%w: not a URL", modproxy.ErrInvalid) // its text may be secret
	}
	a := address{url: u}
	if u.User != nil {
		password, _ := u.User.Password()
		a.user = &egress.Credential{Authorization: basic(u.User.Username(), password)}
		u.User = nil
		a.user.Origin = egress.Origin(u)
	}
	if direct {
		return a, nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return address{}, fmt.Errorf("%w: the query of the URL cannot be read", modproxy.ErrInvalid)
	}
	a.format = archive.FormatOf(u.Path, query.Get("archive"))
	if sum := query.Get("checksum"); sum != "" {
		if a.checksum, err = archive.ParseChecksum(sum); err != nil {
			return address{}, err
		}
		if a.format == "" {
			return address{}, fmt.Errorf("%w: a checksum for what is no archive", modproxy.ErrInvalid)
		}
	}
	var kept []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		if name, _, _ := strings.Cut(pair, "="); pair != "" && name != "archive" && name != "checksum" {
			kept = append(kept, pair)
		}
	}
	u.RawQuery = strings.Join(kept, "&")
	return a, nil
}
