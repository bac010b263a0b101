// Package documents reads and writes the documents of registries about their content.
//
//	d, err := documents.ParseDetails(text, from, v) // from a registry at the URL from
//	err = json.NewEncoder(w).Encode(documents.FormatDetails(d, list))
//
// The documents describe versions of modules and providers, and list them. There are three forms: that of the API below /v1/,
// JSON:API below /v2/, and that of the documentation API of OpenTofu's registry, whose functions have Docs in their names. Each form
// has one set of types, which its Parse and Format functions share. [modproxy.Part] and the types in it have the form of /v1/.
//
// Invariants of all Parse functions: a member of an unexpected type counts as missing, and an unexpected element of a list is left
// out. A name with control characters, or longer than a line, also counts as missing; other texts lose their control characters.
// Errors are [modproxy.ErrInvalid] if the document is not of the form or its lists have too many elements, and
// [modproxy.ErrNotFound] if it is about something else, such as the latest version.
//
// The results of Format functions are for encoding/json. Their lists are never null.
//
// The specifications are https://developer.hashicorp.com/terraform/registry/api-docs, https://jsonapi.org/format/, and registry-ui of
// OpenTofu (backend/internal/moduleindex and backend/internal/providerindex/providertypes).
package documents

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// timestamp is a time in RFC 3339 form. It is zero if a registry gives something else.
type timestamp struct{ time.Time }

// UnmarshalJSON never fails: encoding/json would leave out the rest of the document.
func (t *timestamp) UnmarshalJSON(text []byte) error {
	var s string
	_ = json.Unmarshal(text, &s) // a value that is not a string counts as missing
	t.Time = date(s)
	return nil
}

// idOf returns the name of a module or a provider within its registry.
func idOf(m modproxy.Address) string {
	switch m.Kind() {
	case modproxy.Provider:
		return m.Namespace + "/" + m.Name
	case modproxy.Module:
	}
	return m.Namespace + "/" + m.Name + "/" + m.System
}

// ascending returns the versions of a list, the oldest first.
func ascending(list *modproxy.Versions) []string {
	sorted := slices.SortedFunc(func(yield func(modproxy.Version) bool) {
		for _, l := range list.List {
			if !yield(l.Version) {
				return
			}
		}
	}, modproxy.Version.Compare)
	names := make([]string, len(sorted))
	for i, v := range sorted {
		names[i] = v.String()
	}
	return names
}
