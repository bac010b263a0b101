package documents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
)

// The types below have the form of registry-ui of OpenTofu (backend/internal/moduleindex/module.go and module_version.go).

type docsIndex struct {
	Address     docsAddress   `json:"addr"`
	Description string        `json:"description,omitempty"`
	Versions    []docsVersion `json:"versions"` // the newest is first
}

type docsAddress struct {
	Display   string `json:"display"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Target    string `json:"target,omitempty"` // of a module only
}

type docsVersion struct {
	ID        string    `json:"id"`
	Published timestamp `json:"published"`
}

type docsDetails struct {
	docsVersion
	Readme bool `json:"readme"`
	docsPart
	Submodules map[string]docsPart `json:"submodules"`
	Examples   map[string]docsPart `json:"examples"`
	Repository string              `json:"vcs_repository"`
}

type docsPart struct {
	Path      string                     `json:"path,omitempty"` // not every directory has it
	Variables map[string]input           `json:"variables"`
	Outputs   map[string]modproxy.Output `json:"outputs"`
	Calls     []docsCall                 `json:"dependencies"`
	Providers []docsNeed                 `json:"providers"`
	Resources []docsResource             `json:"resources"`
}

type docsCall struct {
	Name    string `json:"name"`
	Source  string `json:"source"`
	Version string `json:"version_constraint"`
}

type docsNeed struct {
	Name    string `json:"name"`
	Source  string `json:"full_name"`
	Version string `json:"version_constraint"`
}

type docsResource struct {
	Address string `json:"address"`
	Type    string `json:"type"`
	Name    string `json:"name"`
}

// ParseDocsHistory reads the index of a module or a provider in the documentation API of OpenTofu's registry.
func ParseDocsHistory(document []byte, from *url.URL, m modproxy.Address) (*modproxy.History, error) {
	return newReading(from).docsHistory(document, m)
}

func (r *reading) docsHistory(document []byte, m modproxy.Address) (*modproxy.History, error) {
	var doc struct {
		Versions json.RawMessage `json:"versions"`
	}
	if !object(document, &doc) {
		return nil, fmt.Errorf("%w: what describes the versions is not a JSON object", modproxy.ErrInvalid)
	}
	all := dated{}
	for _, text := range r.elements(doc.Versions) {
		if one := (docsVersion{}); object(text, &one) {
			all.add(modproxy.DatedVersion{Version: canonical(one.ID), Published: one.Published.Time})
		}
	}
	return &modproxy.History{Module: m, Versions: all.list()}, r.err
}

// FormatDocsHistory returns the index of a module or a provider in that API.
func FormatDocsHistory(h *modproxy.History) any {
	m := h.Module
	index := docsIndex{docsAddress{idOf(m), m.Namespace, m.Name, m.System}, h.Description, make([]docsVersion, 0, len(h.Versions))}
	order := map[string]modproxy.Version{}
	for _, v := range h.Versions {
		order[v.Version], _ = modproxy.ParseVersion(v.Version) // it is canonical
	}
	sorted := slices.SortedFunc(slices.Values(h.Versions), func(a, b modproxy.DatedVersion) int {
		return order[b.Version].Compare(order[a.Version])
	})
	for _, v := range sorted {
		index.Versions = append(index.Versions, docsVersion{"v" + v.Version, timestamp{v.Published}})
	}
	return index
}

// ParseDocsDetails reads the document about v, a version of a module or a provider, in that API. The readme and the texts of
// documents are in other documents.
func ParseDocsDetails(document []byte, from *url.URL, v modproxy.Ref) (*modproxy.Details, error) {
	switch v.Kind() {
	case modproxy.Provider:
		return newReading(from).docsProvider(document, v)
	case modproxy.Module:
	}
	return newReading(from).docsDetails(document, v)
}

// rawPart is a docsPart before its lists are read.
type rawPart struct {
	Path      string          `json:"path"`
	Variables json.RawMessage `json:"variables"`
	Outputs   json.RawMessage `json:"outputs"`
	Calls     json.RawMessage `json:"dependencies"`
	Providers json.RawMessage `json:"providers"`
	Resources json.RawMessage `json:"resources"`
}

func (r *reading) docsDetails(document []byte, v modproxy.Ref) (*modproxy.Details, error) {
	var doc struct {
		docsVersion
		rawPart
		Repository string          `json:"vcs_repository"`
		Submodules json.RawMessage `json:"submodules"`
		Examples   json.RawMessage `json:"examples"`
	}
	if !object(document, &doc) {
		return nil, fmt.Errorf("%w: what describes a version is not a JSON object", modproxy.ErrInvalid)
	}
	if err := isAbout(doc.ID, v); err != nil {
		return nil, err
	}
	d := &modproxy.Details{
		Summary: modproxy.Summary{Ref: v, Source: webURL(nil, doc.Repository), Tag: clean.Line(doc.ID), Published: doc.Published.Time},
		Root:    r.docsPart("", doc.rawPart), Submodules: r.docsParts("modules/", doc.Submodules), Examples: r.docsParts("examples/", doc.Examples),
	}
	d.Root.Name = v.Name
	return d, r.err
}

// docsParts reads the directories below dir, sorted by path.
func (r *reading) docsParts(dir string, byName json.RawMessage) []modproxy.Part {
	parts := []modproxy.Part{}
	for name, text := range r.elements(byName) {
		var doc rawPart
		if !object(text, &doc) || clean.Line(name) == "" {
			continue
		}
		at := dir + name
		if isPath(doc.Path) {
			at = doc.Path
		}
		if p := r.docsPart(at, doc); isPath(at) {
			p.Name = name
			parts = append(parts, p)
		}
	}
	slices.SortStableFunc(parts, func(a, b modproxy.Part) int { return strings.Compare(a.Path, b.Path) })
	return parts
}

// docsPart reads the description of the directory dir. Elements that are keyed by name need not repeat their name.
func (r *reading) docsPart(dir string, doc rawPart) modproxy.Part {
	p := withLists(modproxy.Part{Path: dir})
	for name, text := range r.elements(doc.Variables) {
		var in input
		if !object(text, &in) || clean.Line(name) == "" {
			continue
		}
		value := jsonText(in.Default, false)
		if !in.Required {
			value = cmp.Or(value, "null")
		}
		p.Inputs = append(p.Inputs, in.read(name, value))
	}
	slices.SortStableFunc(p.Inputs, func(a, b modproxy.Input) int { return strings.Compare(a.Name, b.Name) })
	for name, text := range r.elements(doc.Outputs) {
		if out := (modproxy.Output{}); object(text, &out) && clean.Line(name) != "" {
			p.Outputs = append(p.Outputs, modproxy.Output{Name: name, Description: clean.Prose(out.Description)})
		}
	}
	slices.SortStableFunc(p.Outputs, func(a, b modproxy.Output) int { return strings.Compare(a.Name, b.Name) })
	for _, text := range r.elements(doc.Calls) {
		var call docsCall
		// The API also lists calls of directories in the same package.
		if object(text, &call) && clean.Line(call.Name) != "" && !strings.HasPrefix(call.Source, ".") {
			p.Calls = append(p.Calls, modproxy.PartCall{Name: call.Name, Source: clean.Line(call.Source), Version: clean.Line(call.Version)})
		}
	}
	for _, text := range r.elements(doc.Providers) {
		if need := (docsNeed{}); object(text, &need) && clean.Line(need.Name) != "" {
			// The address of a provider ends in its namespace and its type.
			namespace := path.Base(path.Dir(clean.Line(need.Source)))
			p.Providers = append(p.Providers, modproxy.PartNeed{
				Name: need.Name, Namespace: strings.Trim(namespace, "./"), Source: clean.Line(need.Source), Version: clean.Line(need.Version),
			})
		}
	}
	for _, text := range r.elements(doc.Resources) {
		var managed docsResource
		known := object(text, &managed) && clean.Line(managed.Name) != "" && clean.Line(managed.Type) != ""
		if known && !strings.HasPrefix(managed.Address, "data.") {
			p.Resources = append(p.Resources, modproxy.PartManaged{Name: managed.Name, Type: managed.Type})
		}
	}
	return p
}

// FormatDocsDetails returns the document about a version of a module or a provider in that API.
func FormatDocsDetails(d *modproxy.Details) any {
	at := docsVersion{"v" + d.Version, timestamp{d.Published}}
	switch d.Kind() {
	case modproxy.Provider:
		return docsProvider{at, docsOf(d.Docs), map[string]docsLists{}, d.Source}
	case modproxy.Module:
	}
	return docsDetails{at, d.Root.Readme != "", docsPartOf(d.Root), docsPartsOf(d.Submodules), docsPartsOf(d.Examples), d.Source}
}

func docsPartsOf(list []modproxy.Part) map[string]docsPart {
	parts := make(map[string]docsPart, len(list))
	for _, p := range list {
		parts[p.Name] = docsPartOf(p)
	}
	return parts
}

func docsPartOf(p modproxy.Part) docsPart {
	part := docsPart{
		p.Path, make(map[string]input, len(p.Inputs)), make(map[string]modproxy.Output, len(p.Outputs)),
		[]docsCall{}, []docsNeed{}, []docsResource{},
	}
	for _, in := range p.Inputs {
		one := input{in.Name, in.Type, in.Description, nil, in.Required}
		if json.Valid([]byte(in.Default)) {
			one.Default = json.RawMessage(in.Default)
		}
		part.Variables[in.Name] = one
	}
	for _, out := range p.Outputs {
		part.Outputs[out.Name] = out
	}
	for _, call := range p.Calls {
		part.Calls = append(part.Calls, docsCall(call))
	}
	for _, need := range p.Providers {
		part.Providers = append(part.Providers, docsNeed{need.Name, need.Source, need.Version})
	}
	for _, r := range p.Resources {
		part.Resources = append(part.Resources, docsResource{r.Type + "." + r.Name, r.Type, r.Name})
	}
	return part
}
