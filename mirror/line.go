package mirror

import (
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/tfconfig"
)

// A Line is a part of the answer. One field is set.
type Line struct {
	Package  *Package  `json:"package,omitempty"`
	Bypass   *Note     `json:"bypass,omitempty"`  // a call that bypasses the proxy, or whose source is not known; it is not a Problem
	Problem  *Note     `json:"problem,omitempty"` // a package that is not cached, or a call whose version is not known
	Progress *Progress `json:"progress,omitempty"`
	Data     []byte    `json:"data,omitempty"` // a part of the content of the last Package, in order; its Size says when it is complete
}

// A Package is a package that is cached now.
type Package struct {
	versionname.Name
	Size    int64           `json:"size_bytes"`
	Sum     modproxy.Sum    `json:"sum"`
	Digest  modproxy.Digest `json:"digest"`
	Hashes  modproxy.Hashes `json:"hashes,omitempty"` // of a provider's package
	Subdir  string          `json:"subdir,omitempty"`
	Fetched bool            `json:"fetched"`        // this run has downloaded it
	Data    bool            `json:"data,omitempty"` // its content follows
}

// A Note is about one call.
type Note struct {
	Clients []tfconfig.Client `json:"clients,omitempty"` // the clients that the note concerns; empty: all
	Chain   []string          `json:"chain,omitempty"`   // the positions of the calls that lead to it, outermost first
	Source  string            `json:"source,omitempty"`  // of the call, as far as it is known
	Text    string            `json:"text"`
	// Lacks names the missing package of a Problem, in the form that [ParseEntry] parses: "modproxy mirror" with this argument fetches
	// it. It is empty if no entry can name the package.
	Lacks string `json:"lacks,omitempty"`
}

// String returns n in one line, with the positions of the calls.
func (n *Note) String() string {
	s := n.Text
	if len(n.Chain) > 0 && !strings.Contains(s, n.Source) {
		s = n.Source + ": " + s
	}
	if last := len(n.Chain) - 1; last >= 0 {
		at := n.Chain[last]
		if last > 0 {
			at += " (called from " + n.Chain[0] + ")"
		}
		s = at + ": " + s
	}
	if len(n.Clients) == 1 && len(n.Chain) > 0 {
		s += " (" + string(n.Clients[0]) + ")"
	}
	return s
}

// Progress says how much of a run is done.
type Progress struct {
	Requested int     `json:"asked"`   // version lists of modules and providers that the run has requested from a registry or the cache
	Fetched   int     `json:"fetched"` // packages that this run has downloaded
	Kept      int     `json:"kept"`    // packages that were cached before
	Bypasses  int     `json:"bypasses"`
	Problems  int     `json:"problems"`
	Left      int     `json:"left"`  // tasks, versions and modules that are known and not done
	Bytes     int64   `json:"bytes"` // of the Fetched packages
	Seconds   float64 `json:"seconds"`
}
