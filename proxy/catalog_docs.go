package proxy

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// kindDocs is for what [Upstreams.Docs] says: of a version, or of all of them.
const kindDocs kind = "docs"

const (
	docsPath         = "/registry/docs/modules/"
	providerDocsPath = "/registry/docs/providers/"
)

// docsAt returns the upstream that is described at a hostname, or "".
func (u *Upstreams) docsAt(requestHost string) string {
	host, err := hostname.Parse(requestHost)
	if err != nil {
		return ""
	}
	return u.Docs[host]
}

// parseProviderDocs is parseDocs for providers:
//
//	/registry/docs/providers/{namespace}/{type}[/v{version}]/index.json
//	/registry/docs/providers/{namespace}/{type}/v{version}/[{kind}/]{name}.md
func (u *Upstreams) parseProviderDocs(requestHost, path string) (q request, err error) {
	if q.Host = u.docsAt(requestHost); q.Host == "" {
		return q, errNoDocs
	}
	parts, err := unescaped(strings.TrimPrefix(path, providerDocsPath))
	if err != nil {
		return q, err
	}
	n := len(parts)
	name, isText := strings.CutSuffix(parts[n-1], ".md")
	switch {
	case (n == 3 || n == 4) && parts[n-1] == "index.json":
		q.kind = kindDocs
	case (n == 4 || n == 5) && isText:
		q.kind = kindProviderDocument
		q.id = strings.Join(append(parts[3:n-1:n-1], name), "/")
	default:
		return q, notFound("want " + providerDocsPath + "{namespace}/{type}/index.json, …/v{version}/index.json or …/v{version}/{kind}/{name}.md")
	}
	if q.Address, err = provider(q.Host, parts[0], parts[1]); err == nil && n > 3 {
		q.Ref, err = providerVersion(q.Address, parts[2], "")
	}
	return q, err
}

var errNoDocs = notFound("this is not the name of a site that describes the modules and providers of an upstream")

// parseDocs reads an escaped path of the API that describes the modules of the OpenTofu registry, sent to the host that has it:
//
//	/registry/docs/modules/{namespace}/{name}/{system}[/v{version}]/index.json
func (u *Upstreams) parseDocs(requestHost, path string) (q request, err error) {
	if q.Host = u.docsAt(requestHost); q.Host == "" {
		return q, errNoDocs
	}
	parts, err := unescaped(strings.TrimPrefix(path, docsPath))
	if err != nil {
		return q, err
	}
	n := len(parts)
	if n < 4 || n > 5 || parts[n-1] != "index.json" {
		return q, notFound("want " + docsPath + "{namespace}/{name}/{system}/index.json or …/v{version}/index.json")
	}
	q.kind = kindDocs
	q.Namespace, q.Name, q.System = parts[0], parts[1], parts[2]
	var version string
	if err = q.Check(); err == nil && n == 5 {
		version, err = modproxy.CanonicalVersion(parts[3])
		q.Ref = q.At(version)
	}
	if err != nil {
		return q, invalid(err)
	}
	return q, nil
}

// The documents are those of registry-ui of OpenTofu (backend/internal/moduleindex/module.go and module_version.go).

type docsIndex struct {
	Address     docsAddress   `json:"addr"`
	Description string        `json:"description,omitempty"`
	Versions    []docsVersion `json:"versions"` // the newest is first
}

type docsAddress struct {
	Display   string `json:"display"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Target    string `json:"target,omitempty"` // of a module
}

type docsVersion struct {
	ID        string    `json:"id"`
	Published time.Time `json:"published"`
}

func docsOf(h *modproxy.History) docsIndex {
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
		index.Versions = append(index.Versions, docsVersion{"v" + v.Version, v.Published})
	}
	return index
}

type docsDocument struct {
	docsVersion
	Readme bool `json:"readme"`
	docsPart
	Submodules map[string]docsPart `json:"submodules"`
	Examples   map[string]docsPart `json:"examples"`
	Repository string              `json:"vcs_repository"`
}

type docsPart struct {
	Path      string               `json:"path,omitempty"`
	Variables map[string]docsInput `json:"variables"`
	Outputs   map[string]docsNamed `json:"outputs"`
	Calls     []docsCall           `json:"dependencies"`
	Providers []docsProvider       `json:"providers"`
	Resources []docsResource       `json:"resources"`
}

type docsInput struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Required    bool            `json:"required"`
}

type docsNamed struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type docsCall struct {
	Name    string `json:"name"`
	Source  string `json:"source"`
	Version string `json:"version_constraint"`
}

type docsProvider struct {
	Name    string `json:"name"`
	Source  string `json:"full_name"`
	Version string `json:"version_constraint"`
}

type docsResource struct {
	Address string `json:"address"`
	Type    string `json:"type"`
	Name    string `json:"name"`
}

func docsDetailsOf(d *modproxy.Details) docsDocument {
	return docsDocument{
		docsVersion{"v" + d.Version, d.Published}, d.Root.Readme != "", docsPartOf(d.Root), docsPartsOf(d.Submodules),
		docsPartsOf(d.Examples), d.Source,
	}
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
		p.Path, make(map[string]docsInput, len(p.Inputs)), make(map[string]docsNamed, len(p.Outputs)),
		[]docsCall{}, []docsProvider{}, []docsResource{},
	}
	for _, in := range p.Inputs {
		one := docsInput{in.Name, in.Type, in.Description, nil, in.Required}
		if json.Valid([]byte(in.Default)) {
			one.Default = json.RawMessage(in.Default)
		}
		part.Variables[in.Name] = one
	}
	for _, out := range p.Outputs {
		part.Outputs[out.Name] = docsNamed(out)
	}
	for _, call := range p.Calls {
		part.Calls = append(part.Calls, docsCall(call))
	}
	for _, need := range p.Providers {
		part.Providers = append(part.Providers, docsProvider{need.Name, need.Source, need.Version})
	}
	for _, r := range p.Resources {
		part.Resources = append(part.Resources, docsResource{r.Type + "." + r.Name, r.Type, r.Name})
	}
	return part
}
