package web

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/archive"
)

// address is a parsed http or https location.
type address struct {
	url      *url.URL           // without user information and the arguments archive and checksum
	user     *egress.Credential // the user information, bound to url's origin
	format   archive.Format     // empty if the URL does not name an archive
	checksum *archive.Checksum
}

// parse reads an http or https location. The arguments archive and checksum are for the client and never sent
// (go-getter's client.go). The rest of the query is unchanged. A direct location has no such arguments.
func parse(raw string, direct bool) (address, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return address{}, fmt.Errorf("%w: not a URL", modproxy.ErrInvalid) // its text may be secret
	}
	a := address{url: u}
	if u.User != nil {
		password, _ := u.User.Password()
		a.user = &egress.Credential{Authorization: fetch.Basic(u.User.Username(), password)}
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
			return address{}, fmt.Errorf("%w: a checksum for a URL that is not an archive", modproxy.ErrInvalid)
		}
	}
	u.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return pair == "" || name == "archive" || name == "checksum"
	}), "&")
	return a, nil
}

// maxPage bounds the page that may carry a meta tag, in bytes.
const maxPage = 1 << 20

// askPage requests a location that is not an archive, and returns the location of the package from the answer: from the
// header X-Terraform-Get, or from a meta tag named terraform-get in the head of an HTML page (go-getter's get_http.go).
func (v *visit) askPage(ctx context.Context) (next *modproxy.Location, err error) {
	defer modproxy.MeterOf(ctx).Begin()()
	asked := *v.url
	if asked.RawQuery != "" {
		asked.RawQuery += "&"
	}
	asked.RawQuery += "terraform-get=1"
	err = fetch.Retry(ctx, func() (bool, error) {
		res, again, err := v.get(ctx, egress.Request{URL: asked.String(), Attempts: 2, MaxBytes: maxPage})
		if err != nil {
			return again, err
		}
		defer res.Body.Close()
		value := res.Header.Get("X-Terraform-Get")
		if value == "" {
			value, err = metaTag(res.Body)
			if errors.Is(err, modproxy.ErrInvalid) {
				return false, err
			} else if err != nil {
				return fetch.Failed(v.source.Budget, egress.MayPass(err), fetch.Outgoing(err))
			}
		}
		l, err := modproxy.ParseLocation(value, res.Request.URL)
		next = &l
		return false, err
	})
	return next, err
}

// metaTag returns the content of <meta name="terraform-get"> in a page's head. If the page does not have it, the error
// is [modproxy.ErrInvalid]. Other errors are those of page.
func metaTag(page io.Reader) (string, error) {
	d := xml.NewDecoder(page)
	d.Strict = false
	d.AutoClose = xml.HTMLAutoClose
	d.Entity = xml.HTMLEntity
	d.CharsetReader = func(charset string, r io.Reader) (io.Reader, error) {
		switch strings.ToLower(charset) {
		case "utf-8", "ascii", "us-ascii":
			return r, nil
		}
		return nil, fmt.Errorf("charset %.20q", charset)
	}
	for {
		token, err := d.Token()
		if err != nil && err != io.EOF && !errors.As(err, new(*xml.SyntaxError)) {
			return "", err
		}
		end := err != nil
		switch t := token.(type) {
		case xml.StartElement:
			content := attribute(t, "content")
			if content != "" && strings.EqualFold(t.Name.Local, "meta") && attribute(t, "name") == "terraform-get" {
				return content, nil
			}
			end = strings.EqualFold(t.Name.Local, "body")
		case xml.EndElement:
			end = strings.EqualFold(t.Name.Local, "head")
		}
		if end {
			return "", fmt.Errorf("%w: the response is not an archive, and names none in an X-Terraform-Get header or a terraform-get meta tag",
				modproxy.ErrInvalid)
		}
	}
}

func attribute(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if strings.EqualFold(a.Name.Local, name) {
			return a.Value
		}
	}
	return ""
}
