package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// The parts of the registry's own API that tools decode. This API is not part of the protocol.
type (
	// languageDetails is decoded by terraform-ls.
	languageDetails struct {
		Version    string
		Published  time.Time `json:"published_at"`
		Root       languagePart
		Submodules []languagePart
	}
	languagePart struct {
		Path   string
		Inputs []struct {
			Name, Type, Description, Default string
			Required                         bool
		}
		Outputs []struct{ Name, Description string }
	}
	// summary is a module in a list, as terraform-mcp-server decodes it.
	summary struct {
		ID, Owner, Namespace, Name, Version, Provider, Description, Source, Tag string

		Published time.Time `json:"published_at"`
		Downloads int64
		Verified  bool
	}
	assistantDetails struct {
		summary
		Logo                 string `json:"provider_logo_url"`
		Root                 assistantPart
		Submodules, Examples []assistantPart
		Providers, Versions  []string
	}
	assistantPart struct {
		Path, Name, Readme string
		Empty              bool
		Inputs             []struct {
			Name, Type, Description string
			Required                bool
		}
		Outputs      []struct{ Name, Description string }
		Dependencies []struct{ Name, Source, Version string }
		Needs        []struct{ Name, Namespace, Source, Version string } `json:"provider_dependencies"`
		Resources    []struct{ Name, Type string }
	}
	assistantList struct {
		Meta struct {
			Limit   int
			Current int    `json:"current_offset"`
			Next    int    `json:"next_offset"`
			Prev    int    `json:"prev_offset"`
			NextURL string `json:"next_url"`
			PrevURL string `json:"prev_url"`
		}
		Modules []summary
	}
	// latest is the description of the newest version that Renovate needs, at app.terraform.io and, before version 43
	// of Renovate, at registry.terraform.io.
	latest struct {
		Source, Version *string
		Versions        []string
	}
	// history is the description of all versions that Renovate and Dependabot need.
	history struct {
		Data *struct {
			Attributes *struct{ Source *string }
		}
		Included []struct {
			Type       string
			Attributes struct {
				Version   string
				Published string `json:"published-at"`
			}
		}
	}
	// docs is the part of OpenTofu's second API that Renovate needs.
	docs struct {
		Versions []struct{ ID, Published string }
	}
)

// optional requests and decodes a document that a registry need not have. If there is nothing to check, the result says
// why.
func (v *visit) optional(p part, address, lost string, to any) Result {
	a := v.get(p, address)
	switch {
	case a.err != nil:
		return fail("%s", a)
	case v.refused(a):
		return after("auth.token")
	case slices.Contains([]int{400, 401, 403, 404, 405, 410, 501}, a.status):
		return without("%s: %s", a, lost)
	case a.status != http.StatusOK:
		return fail("%s", a)
	}
	if err := decode(a.body, to, true); err != nil {
		return fail("%v", err)
	}
	return Result{}
}

// details requests the details of the newest version, or of the latest one if version is empty.
func (v *visit) details(version string, to any) Result {
	path, lost := v.path(), "terraform-ls does not complete or describe inputs"
	if v.name == assistant {
		path, lost = strings.ToLower(path), "the assistant cannot describe the module"
	}
	if version != "" {
		path += "/" + version
	}
	if v.name == assistant {
		path += "?offset=0"
	}
	return v.optional(ofModules, v.root.String()+"/v1/modules/"+path, lost, to)
}

func languageKnows(v *visit) Result {
	_, version, ok := v.newest()
	if !ok {
		return after("versions.parsable")
	}
	var d languageDetails
	if not := v.details(version, &d); not.Verdict != "" {
		return not
	}
	return pass("%d inputs, %d submodules", len(d.Root.Inputs), len(d.Submodules))
}

// defaultsAreJSON checks the inputs that terraform-ls shows.
func defaultsAreJSON(v *visit) Result {
	_, version, _ := v.newest()
	var d languageDetails
	if not := v.details(version, &d); version == "" || not.Verdict != "" {
		return after("api.details")
	}
	for _, part := range append(d.Submodules, d.Root) {
		for _, in := range part.Inputs {
			if in.Default != "" && !json.Valid([]byte(in.Default)) {
				return warn("the default of %q is %.60q: terraform-ls shows no default", in.Name, in.Default)
			}
		}
	}
	return pass("all of them")
}

func assistantKnows(v *visit) Result {
	spelled, _, ok := v.newest()
	if !ok {
		return after("versions.parsable")
	}
	var d assistantDetails
	if not := v.details(spelled, &d); not.Verdict != "" {
		return not
	}
	return v.rightDetails(&d)
}

func assistantLatest(v *visit) Result {
	var d assistantDetails
	path := v.root.String() + "/v1/modules/" + strings.ToLower(v.path())
	if not := v.optional(ofModules, path, "the assistant does not find the latest version", &d); not.Verdict != "" {
		return not
	}
	return v.rightDetails(&d)
}

// rightDetails compares d with the newest listed version.
func (v *visit) rightDetails(d *assistantDetails) Result {
	_, newest, ok := v.newest()
	switch canonical, _ := modproxy.CanonicalVersion(d.Version); {
	case ok && canonical != newest:
		return fail("the version is %.60q, not %s", d.Version, newest)
	case d.Published.IsZero():
		return warn("no published_at")
	}
	return pass("published %s", d.Published.Format(time.DateOnly))
}

func renovateLatest(v *visit) Result {
	u, ok := v.in(v.path())
	if !ok {
		return after("discovery.base")
	}
	var d latest
	not := v.optional(ofModules, u, "Renovate looks here if the host is app.terraform.io, or before version 43 registry.terraform.io", &d)
	switch {
	case not.Verdict != "":
		return not
	case d.Version == nil || d.Versions == nil:
		return fail(`"version" or "versions" is missing`)
	}
	return v.sameVersions(d.Versions)
}

func datesVersions(v *visit) Result {
	p, lost := ofModules, "Renovate finds no versions by the name registry.terraform.io"
	if v.name == dependabot {
		p, lost = ofPackage, "Dependabot's cooldown does not count for the module" // sends no token for it
	}
	if v.below {
		return without("requested at the root of a host only")
	}
	var d history
	not := v.optional(p, v.root.String()+"/v2/modules/"+v.path()+"?include=module-versions", lost, &d)
	switch {
	case not.Verdict != "":
		return not
	case d.Data == nil || d.Data.Attributes == nil:
		return fail(`"data" has no "attributes"`)
	}
	var versions []string
	undated := 0
	for _, one := range d.Included {
		if one.Type != "module-versions" {
			continue
		}
		versions = append(versions, one.Attributes.Version)
		if _, err := time.Parse(time.RFC3339, one.Attributes.Published); err != nil {
			undated++
		}
	}
	if result := v.sameVersions(versions); result.Verdict != Pass || undated == 0 {
		return result
	}
	return warn("%d of %d versions have no published-at", undated, len(versions))
}

func tofuDocs(v *visit) Result {
	if v.Host != tofuHost {
		return without("requested at %s, for modules of %s only", docsHost, tofuHost)
	}
	var d docs
	at := v.root.Scheme + "://" + docsHost + "/registry/docs/modules/" + v.path() + "/index.json"
	if not := v.optional(ofModules, at, "Renovate finds no versions", &d); not.Verdict != "" {
		return not
	}
	var versions []string
	for _, one := range d.Versions {
		versions = append(versions, one.ID)
	}
	return v.sameVersions(versions)
}

// sameVersions compares the versions in a tool's answer with the versions that can be installed.
func (v *visit) sameVersions(told []string) Result {
	all, _, ok := v.listed()
	if !ok || len(all) == 0 {
		return after("versions.some")
	}
	listed, known := map[string]bool{}, map[string]bool{}
	for _, s := range all {
		if canonical, err := modproxy.CanonicalVersion(s); err == nil {
			listed[canonical] = true
		}
	}
	for _, s := range told {
		canonical, err := modproxy.CanonicalVersion(s)
		if err != nil || !listed[canonical] {
			return fail("it has the version %.60q, which is not listed", s)
		}
		known[canonical] = true
	}
	for _, s := range slices.Sorted(maps.Keys(listed)) {
		if !known[s] {
			return warn("the version %s is missing", s)
		}
	}
	return pass("the %d versions that are listed", len(told))
}

func listsModules(v *visit) Result { return v.lists("?offset=0", "") }

// maxPages is the maximum number of pages of a list that are read.
const maxPages = 20

// endsPages reads the list of modules by the offset that each page gives for the next one.
func endsPages(v *visit) Result {
	seen, offset := map[string]int{}, 0
	for page := 1; page <= maxPages; page++ {
		var list assistantList
		at := fmt.Sprintf("%s/v1/modules?offset=%d", v.root, offset)
		if not := v.optional(ofModules, at, "", &list); not.Verdict != "" {
			return after("api.list")
		}
		for _, m := range list.Modules {
			if before, ok := seen[m.ID]; ok && before != offset {
				return warn("%.80q is listed at the offsets %d and %d", m.ID, before, offset)
			}
			seen[m.ID] = offset
		}
		switch next := list.Meta.Next; {
		case next == 0 || len(list.Modules) == 0:
			return pass("%d pages", page)
		case next <= offset:
			return warn("the page at the offset %d names %d as the next one", offset, next)
		default:
			offset = next
		}
	}
	return pass("%d pages and more", maxPages)
}

// searches puts quotes into its query, as the assistant does.
func searches(v *visit) Result {
	return v.lists(fmt.Sprintf("/search?q='%s'&offset=0", url.PathEscape(v.Name)), v.path())
}

// lists requests a list, and looks for the module want in it. If want is empty, any module will do.
func (v *visit) lists(query, want string) Result {
	var list assistantList
	not := v.optional(ofModules, v.root.String()+"/v1/modules"+query, "the assistant finds no modules", &list)
	if not.Verdict != "" {
		return not
	}
	for _, m := range list.Modules {
		if strings.EqualFold(m.Namespace+"/"+m.Name+"/"+m.Provider, want) {
			return pass("%d modules, with this one", len(list.Modules))
		}
	}
	switch {
	case len(list.Modules) == 0:
		return warn("no modules: the assistant reports an empty list")
	case want != "":
		return warn("%d modules without this one", len(list.Modules))
	}
	return pass("%d modules", len(list.Modules))
}
