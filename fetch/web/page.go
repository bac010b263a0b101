package web

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// maxPage bounds the page that may carry a meta tag, in bytes.
const maxPage = 1 << 20

// askPage asks a location that is no archive where the package is: by the header X-Terraform-Get, or by a meta tag
// named terraform-get in the head of an HTML page (go-getter's get_http.go).
func (v *visit) askPage(ctx context.Context) (next *modproxy.Location, err error) {
	asked := *v.url
	if asked.RawQuery != "" {
		asked.RawQuery += "&"
	}
	asked.RawQuery += "terraform-get=1"
	err = fetch.Retry(ctx, maxTries, func() (bool, error) {
		res, again, err := v.get(ctx, egress.Request{URL: asked.String(), Attempts: 2, MaxBytes: maxPage})
		if err != nil {
			return again, err
		}
		defer res.Body.Close()
		value := res.Header.Get("X-Terraform-Get")
		if value == "" {
			if value, err = metaTag(res.Body); err != nil {
				return false, err
			}
		}
		l, err := modproxy.ParseLocation(value, res.Request.URL)
		next = &l
		return false, err
	})
	return next, err
}

// metaTag returns the content of <meta name="terraform-get"> from a page's head.
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
	none := fmt.Errorf("%w: neither an archive, nor does it say with X-Terraform-Get or a terraform-get meta tag where one is", modproxy.ErrInvalid)
	for {
		token, err := d.Token()
		var syntax *xml.SyntaxError
		switch {
		case err == io.EOF, errors.As(err, &syntax):
			return "", none
		case err != nil:
			return "", fetch.Outgoing(err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if strings.EqualFold(t.Name.Local, "body") {
				return "", none
			}
			if strings.EqualFold(t.Name.Local, "meta") && attribute(t, "name") == "terraform-get" {
				if content := attribute(t, "content"); content != "" {
					return content, nil
				}
			}
		case xml.EndElement:
			if strings.EqualFold(t.Name.Local, "head") {
				return "", none
			}
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
