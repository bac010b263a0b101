package mirror

import (
	"fmt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/tfconfig"
)

// A Request selects packages: those of Starts, with all that they call in turn, and those of Locked.
type Request struct {
	Starts []closure.Start `json:"starts,omitempty"`
	Locked []Locked        `json:"locked,omitempty"` // only these packages, without the modules and providers that they call
	Choice                 // of the versions of the modules that Starts name; not of Locked, and not of modules that others call
	// Providers selects the releases of providers, too, with their packages for Platforms, or for those of a Start.
	Providers bool                `json:"providers,omitempty"`
	Platforms []modproxy.Platform `json:"platforms,omitempty"`
	Groups    []string            `json:"groups,omitempty"` // of the client that the packages are for
	// Content requests the content of packages, too. It leaves out the packages whose digest is in Have or whose directory has a
	// sum in HaveDirectories. Releases of providers are not sent.
	Content         bool              `json:"content,omitempty"`
	Have            []modproxy.Digest `json:"have,omitempty"`
	HaveDirectories []modproxy.Sum    `json:"have_directories,omitempty"` // h1 sums, see [modproxy.Hashes]
}

// Locked is a version with the content that it must have.
type Locked struct {
	At string `json:"at,omitempty"` // the file that locks the version, for messages
	versionname.Name
	Sum    modproxy.Sum `json:"sum"`
	Subdir string       `json:"subdir,omitempty"`
}

// check returns an error if in is not valid.
func (in *Request) check() error {
	if len(in.Locked) > maxLocked {
		return fmt.Errorf("%w: %d locked versions: a request may have %d", modproxy.ErrInvalid, len(in.Locked), maxLocked)
	}
	for _, s := range in.Starts {
		if tfconfig.DefaultHosts[s.Client] == "" {
			return fmt.Errorf("%w: client %.80q", modproxy.ErrInvalid, s.Client)
		}
	}
	return nil
}
