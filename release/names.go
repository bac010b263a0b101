package release

import (
	"fmt"
	"strings"

	"github.com/modproxy/modproxy"
)

// IsNamed reports whether a file name in SHA256SUMS is that of the package of v for p. Registries require
// terraform-provider-{type}_{version}_{os}_{arch}.zip; registry.opentofu.org also accepts a v before the version. The
// comparison ignores the case of the type, as addresses do.
func IsNamed(file string, v modproxy.Ref, p modproxy.Platform) bool {
	prefix := "terraform-provider-" + v.Name + "_"
	if len(file) < len(prefix) || !strings.EqualFold(file[:len(prefix)], prefix) {
		return false
	}
	rest := strings.TrimPrefix(file[len(prefix):], "v")
	return rest == v.Version+"_"+p.String()+".zip"
}

// CheckNames returns an error unless each package of r has the name of v and its platform in SHA256SUMS. Otherwise a
// signature for one version or platform could be used for another. The names of an unsigned release are not checked,
// because they are not signed.
//
// Errors: [modproxy.ErrInvalid].
func (r *Release) CheckNames(v modproxy.Ref) error {
	if r.Unsigned {
		return nil
	}
	for _, a := range r.Archives {
		if !IsNamed(a.File, v, a.Platform) {
			return invalid("the package for %s is signed as %.100q: want %.200q (operator: if this registry names its files otherwise, "+
				"providers.other_names can allow it)", a.Platform, a.File, fmt.Sprintf("terraform-provider-%s_%s_%s.zip", v.Name, v.Version, a.Platform))
		}
	}
	return nil
}
