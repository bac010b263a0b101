package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// What is beside the module registry protocol. Its troubles say nothing about what the protocol itself asks for.
const (
	modulesV2  service = "modules.v2"  // beside modules.v1: documents that follow JSON:API
	moduleDocs service = "module.docs" // below modules.v1: a document about each version
)

// maxDocs bounds how many versions are asked for one by one.
const maxDocs = 16

// Published asks m's registry when versions were published. One that has no /v2/ beside its /v1/ is asked for the
// document of each of the first [maxDocs] versions. Of a provider it is when the first [maxSigned] of them were signed, as
// their signers say. What a registry does not say is not in the answer, which may be there beside an error. Errors:
// [modproxy.ErrUnavailable].
func (c *Client) Published(ctx context.Context, m modproxy.Module, versions []string) (map[string]time.Time, error) {
	s := serviceOf{m.Host, modulesV1}
	if m.IsProvider() {
		s.service = providersV1
	}
	g := c.gate(s)
	select {
	case g.dates <- struct{}{}:
		defer func() { <-g.dates }()
	case <-ctx.Done():
		return nil, failed("dates", m.At(""), fmt.Errorf("%w: %w: %w", modproxy.ErrUnavailable, errBusy, context.Cause(ctx)))
	}
	if m.IsProvider() {
		dates, err := c.signed(ctx, m, versions)
		return dates, failed("dates", m.At(""), err)
	}
	path := strings.TrimSuffix(modulePath(m, ""), "/") + "?include=module-versions"
	dates, err := question(ctx, c, serviceOf{m.Host, modulesV2}, path, maxDocument, readDates)
	if err == nil || inTrouble(err) {
		return dates, failed("dates", m.At(""), err)
	}
	dates = map[string]time.Time{}
	for _, version := range versions[:min(len(versions), maxDocs)] {
		v := m.At(version)
		spelling, ok := c.spelled.Peek(v)
		if !ok {
			spelling = version
		}
		read := func(_ *http.Response, _ *url.URL, document []byte) (time.Time, error) {
			return parseDoc(document, version)
		}
		at, err := question(ctx, c, serviceOf{m.Host, moduleDocs}, modulePath(m, url.PathEscape(spelling)), maxDocument, read)
		switch {
		case err != nil && inTrouble(err):
			return dates, failed("dates", v, err)
		case err == nil && !at.IsZero():
			dates[version] = at
		case len(dates) == 0: // neither has it other ones, as far as that can be guessed
			return nil, nil
		}
	}
	return dates, nil
}

// inTrouble reports whether err says more about the state of a registry than about what it offers.
func inTrouble(err error) bool {
	why, _ := trouble(err)
	_, later := errors.AsType[*modproxy.RetryLater](err)
	return why != nil || later
}

// besideV1 returns the URL of modules.v2 for that of modules.v1.
func besideV1(base *url.URL) (*url.URL, error) {
	if !strings.HasSuffix(base.EscapedPath(), "/v1/modules/") {
		return nil, fmt.Errorf("%w: there is no /v2/modules/ beside %s", modproxy.ErrNotFound, base.Redacted())
	}
	return base.Parse("../../v2/modules/")
}

func readDates(_ *http.Response, _ *url.URL, document []byte) (map[string]time.Time, error) {
	return parseDates(document)
}

// dated is what a document says of one version. A member of another type counts as one that is missing.
type dated struct {
	Version     any `json:"version"`
	PublishedAt any `json:"published-at"` // in JSON:API
	Published   any `json:"published_at"` // in the document about one version
}

// parseDates reads the dates of a module's versions, by canonical version without build metadata. Of several dates of one
// version the latest counts.
func parseDates(document []byte) (map[string]time.Time, error) {
	var all struct {
		Included []json.RawMessage `json:"included"`
	}
	if err := json.Unmarshal(document, &all); err != nil {
		return nil, fmt.Errorf("%w: dates: %w", modproxy.ErrInvalid, err)
	}
	dates := map[string]time.Time{}
	for _, raw := range all.Included {
		var one struct {
			Type       string `json:"type"`
			Attributes dated  `json:"attributes"`
		}
		if json.Unmarshal(raw, &one) != nil || one.Type != "module-versions" {
			continue
		}
		version, at := canonical(one.Attributes.Version), parseDate(one.Attributes.PublishedAt)
		if version != "" && at.After(dates[version]) {
			dates[version] = at
		}
	}
	return dates, nil
}

// parseDoc reads the date of a version from the document about it; zero if that gives none.
func parseDoc(document []byte, version string) (time.Time, error) {
	var doc dated
	if err := json.Unmarshal(document, &doc); err != nil {
		return time.Time{}, fmt.Errorf("%w: date: %w", modproxy.ErrInvalid, err)
	}
	if canonical(doc.Version) != version { // it may be about the latest one
		return time.Time{}, nil
	}
	return parseDate(doc.Published), nil
}

// canonical returns a version in a document without its build metadata, or nothing.
func canonical(v any) string {
	text, _ := v.(string)
	version, err := modproxy.CanonicalVersion(text)
	if err != nil {
		return ""
	}
	version, _, _ = strings.Cut(version, "+")
	return version
}

func parseDate(v any) time.Time {
	text, _ := v.(string)
	at, _ := time.Parse(time.RFC3339, text) // the zero time for what is none
	return at
}
