package tags

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// Versions implements [modproxy.Registry]. It lists the tags that are canonical versions.
func (r *Registry) Versions(ctx context.Context, a modproxy.Address) (*modproxy.Versions, error) {
	v, err := r.versions(ctx, a)
	return v, modproxy.Wrap("versions", a.At(""), err)
}

func (r *Registry) versions(ctx context.Context, a modproxy.Address) (*modproxy.Versions, error) {
	m, err := r.mapping(a)
	if err != nil {
		return nil, err
	}
	all, err := r.list(ctx, m, a, r.cfg.Fetch.Tags, m.prefixes(a))
	if err != nil {
		return nil, m.hidden(err)
	}
	var list []modproxy.Version
	seen := map[string]bool{}
	for _, tag := range all {
		text := m.version(a, tag.Name)
		if text == "" || seen[text] {
			continue
		}
		seen[text] = true
		parsed, err := modproxy.ParseVersion(text)
		if err != nil {
			return nil, err
		}
		list = append(list, parsed)
	}
	if len(list) == 0 {
		return nil, errNoTag
	}
	slices.SortFunc(list, modproxy.Version.Compare)
	type entry struct {
		Version string `json:"version"`
	}
	entries := make([]entry, len(list))
	for i, v := range list {
		entries[i].Version = v.String()
	}
	document, err := json.Marshal(map[string]any{"modules": []any{map[string]any{"versions": entries}}})
	if err != nil {
		return nil, err
	}
	v, err := modproxy.ReadVersions(a, document)
	if err == nil {
		v.Time = time.Now()
	}
	return v, err
}

// locate asks for the tags of v. The location that it returns has the commit of the tag.
func (r *Registry) locate(ctx context.Context, v modproxy.Ref) (s fetch.Source, commit string, err error) {
	m, err := r.mapping(v.Address)
	if err != nil {
		return s, "", err
	}
	if canonical, err := modproxy.CanonicalVersion(v.Version); err != nil || canonical != v.Version {
		return s, "", errNoTag
	}
	all, err := r.list(ctx, m, v.Address, r.cfg.Fetch.NamedTags, m.names(v))
	if err != nil {
		return s, "", m.hidden(err)
	}
	if len(all) == 0 {
		return s, "", errNoTag
	}
	if err := ambiguity(all); err != nil {
		return s, "", &modproxy.Ambiguous{Err: err}
	}
	if s, err = m.source(v.Address); err != nil {
		return s, "", err
	}
	s.Location = s.AtCommit(all[0].Commit)
	r.located.Add(v, s, locatedFor, int64(len(s.URL)))
	return s, all[0].Commit, nil
}

// ambiguity returns an error that names two tags of a version with different commits, or nil.
func ambiguity(all []fetch.Tag) error {
	for _, tag := range all[1:] {
		if tag.Commit != all[0].Commit {
			return fmt.Errorf("the tags %q and %q name different commits, %s and %s (operator: remove one of them)",
				all[0].Name, tag.Name, all[0].Commit, tag.Commit)
		}
	}
	return nil
}

// Location implements [modproxy.Registry].
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	s, _, err := r.locate(ctx, v)
	return s.Location, modproxy.Wrap("location", v, err)
}

// Package implements [modproxy.Registry].
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (p *modproxy.Package, err error) {
	s, known := r.located.Get(v)
	if !known {
		s, _, err = r.locate(ctx, v)
	}
	if err == nil {
		p, err = r.cfg.Fetch.Package(ctx, s)
	}
	return p, modproxy.Wrap("package", v, err)
}

// PackageAt implements [upstream.Registry]. The recorded URL has no user, so the URL of the mapping is used if it is the same
// repository.
func (r *Registry) PackageAt(ctx context.Context, rec modproxy.Record) (*modproxy.Package, error) {
	p, err := r.recorded(ctx, rec)
	return p, modproxy.Wrap("package", rec.Ref, err)
}

func (r *Registry) recorded(ctx context.Context, rec modproxy.Record) (*modproxy.Package, error) {
	if rec.Source.Commit == "" {
		return nil, fmt.Errorf("%w: no commit is recorded", modproxy.ErrNotFound)
	}
	s := fetch.Source{Location: rec.Location(), Module: rec.Address}
	if m, err := r.mapping(rec.Address); err == nil {
		if now, err := m.source(rec.Address); err == nil {
			if u, err := url.Parse(now.URL); err == nil && egress.Redact(u) == rec.Source.URL {
				s.URL = now.AtCommit(rec.Source.Commit).URL
			}
		}
	}
	if err := r.cfg.Fetch.Check(ctx, s); err != nil {
		return nil, err
	}
	return r.cfg.Fetch.Package(ctx, s)
}

// Commit implements [upstream.Registry].
func (r *Registry) Commit(ctx context.Context, v modproxy.Ref) (string, error) {
	_, commit, err := r.locate(ctx, v)
	return commit, modproxy.Wrap("location", v, err)
}

// Published implements [upstream.Registry]. It returns no date: the author of a tag chooses its date.
func (r *Registry) Published(context.Context, modproxy.Address, []string) (map[string]time.Time, []string, error) {
	return nil, nil, nil
}

// PublishedOf implements [upstream.Registry].
func (r *Registry) PublishedOf(context.Context, modproxy.Ref) (time.Time, error) {
	return time.Time{}, nil
}

// OtherServices implements [upstream.Registry].
func (r *Registry) OtherServices(context.Context, string) map[string]string { return nil }

// errNoDescription lets package catalog describe stored packages instead.
var errNoDescription = fmt.Errorf("%w: repositories have no descriptions of modules", modproxy.ErrNotFound)

// Details implements [modproxy.Catalog].
func (r *Registry) Details(_ context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	return nil, modproxy.Wrap("details", v, errNoDescription)
}

// History implements [modproxy.Catalog].
func (r *Registry) History(_ context.Context, m modproxy.Address) (*modproxy.History, error) {
	return nil, modproxy.Wrap("history", m.At(""), errNoDescription)
}

// Downloads implements [modproxy.Catalog].
func (r *Registry) Downloads(_ context.Context, m modproxy.Address) (*modproxy.Downloads, error) {
	return nil, modproxy.Wrap("downloads", m.At(""), errNoDescription)
}

// Text implements [modproxy.Catalog].
func (r *Registry) Text(_ context.Context, v modproxy.Ref, _ string) (*modproxy.Text, error) {
	return nil, modproxy.Wrap("text", v, errNoDescription)
}

// List implements [modproxy.Catalog].
func (r *Registry) List(context.Context, modproxy.Query) (*modproxy.Page, error) {
	return nil, errNoDescription
}

// Document implements [upstream.Registry].
func (r *Registry) Document(context.Context, string, string) (string, []byte, error) {
	return "", nil, errNoDescription
}
