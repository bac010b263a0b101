//go:build linux

package hostile_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

// internalTargets are spellings of places that nothing may be fetched from, as they
// can stand in a location.
var internalTargets = map[string]string{
	"metadata": "https://169.254.169.254/latest/meta-data/x.zip",
}

func TestInternalTargetsAreRefused(t *testing.T) {
	p := start(t, ordinary)
	for name, target := range internalTargets {
		p.run(name, func(t *testing.T) {
			for form, g := range map[string]*registry{
				"header": located(target),
				"json": {download: func(w http.ResponseWriter, _ *http.Request, _ string) {
					json.NewEncoder(w).Encode(map[string]string{"location": target})
				}},
			} {
				m := module{g.host(t), "case", form, "aws"}
				p.refuse(t, m, "1.0.0", "not allowed")
			}
		})
	}
}
