package tags

import (
	"context"
	"fmt"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
)

// Inspection has all tags of the repository of a module. The names of tags are untrusted text.
type Inspection struct {
	Repository string      `json:"repository"`          // its URL, without a user
	Path       string      `json:"path,omitempty"`      // the directory of the module; empty for the root
	Forms      []string    `json:"forms"`               // the forms of tags that are versions, such as v{version}
	Versions   []string    `json:"versions,omitempty"`  // in ascending order, without the ambiguous ones
	Ambiguous  []Ambiguity `json:"ambiguous,omitempty"` // in ascending order
	Others     []Other     `json:"others,omitempty"`    // tags that are not versions, in order of their names
}

// Ambiguity is a version that tags with different commits name.
type Ambiguity struct {
	Version string      `json:"version"`
	Tags    []fetch.Tag `json:"tags"`
	Why     string      `json:"why"`
}

// Other is a tag that is not a version of a module.
type Other struct {
	Tag string `json:"tag"`
	Why string `json:"why"`
}

const otherForm = "another form"

// IsOtherForm reports whether the tag has none of the forms of an [Inspection], such as a tag of another module in the repository.
func (o Other) IsOtherForm() bool { return o.Why == otherForm }

// Inspect asks for all tags of the repository of a module. Its errors are for operators: they name the repository.
func (r *Registry) Inspect(ctx context.Context, a modproxy.Address) (*Inspection, error) {
	m, err := r.mapping(a)
	if err != nil {
		return nil, err
	}
	all, err := r.list(ctx, m, a, r.cfg.Fetch.Tags, []string{""})
	if err != nil {
		return nil, err
	}
	i := m.describe(a)
	var list []modproxy.Version
	byVersion := map[string][]fetch.Tag{}
	for _, tag := range all {
		text := m.version(a, tag.Name)
		if text == "" {
			i.Others = append(i.Others, Other{tag.Name, m.reason(a, tag.Name)})
			continue
		}
		parsed, err := modproxy.ParseVersion(text)
		if err != nil {
			return nil, err
		}
		if byVersion[text] == nil {
			list = append(list, parsed)
		}
		byVersion[text] = append(byVersion[text], tag)
	}
	slices.SortFunc(list, modproxy.Version.Compare)
	for _, v := range list {
		named := byVersion[v.String()]
		if err := ambiguity(named); err != nil {
			i.Ambiguous = append(i.Ambiguous, Ambiguity{v.String(), named, err.Error()})
		} else {
			i.Versions = append(i.Versions, v.String())
		}
	}
	return i, nil
}

// reason returns why a tag is not a version of a module.
func (m Mapping) reason(a modproxy.Address, tag string) string {
	texts := m.texts(a, tag)
	if len(texts) == 0 {
		return otherForm
	}
	if canonical, err := modproxy.CanonicalVersion(texts[0]); err == nil {
		return fmt.Sprintf("not canonical: the version is %s", canonical)
	}
	return "not a version"
}
