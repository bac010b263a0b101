// Package versionname has the JSON form of the name of a version.
//
// [Of] returns the [Name] of a version, and [Name.Parse] returns the version. A [Name] is embedded in the requests and
// answers of the operator's API, so its fields are on one level with theirs.
package versionname

import (
	"fmt"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// A Name names a version of a module or provider. If Version is empty, it names the module as a whole, which means all versions in
// most requests. The zero Name names no module. A request whose name is optional decides what the zero Name means in it, such as
// every module; see [Name.ParseOptional].
//
// [Name.Parse] is the inverse of [Of]. A variant that is not a platform is part of Version, as [modproxy.Ref.FullVersion] returns it.
type Name struct {
	Module   string `json:"module,omitempty"` // an address as [hostname.ParseAddress] reads it
	Version  string `json:"version,omitempty"`
	Platform string `json:"platform,omitempty"` // of a provider's package; empty for modules and for a provider's release
}

// Of returns the name of a version, or of a module if v.Version is empty. For a Ref without an address it returns the zero Name.
func Of(v modproxy.Ref) Name {
	if v.Address == (modproxy.Address{}) {
		return Name{}
	}
	version, platform := v.VersionPlatform()
	return Name{v.Address.String(), version, platform}
}

// Shown returns the name as messages show it: the address and the version, see [modproxy.Ref.Shown]. A name that cannot be parsed, as
// of a damaged record, is shown as it is.
func (n Name) Shown() string {
	v, err := n.Parse("")
	if err != nil {
		return strings.TrimSpace(n.Module + " " + n.Version)
	}
	return v.Shown()
}

// ShownVersion returns the version as Shown does, without the address.
func (n Name) ShownVersion() string {
	_, version, _ := strings.Cut(n.Shown(), " ")
	return version
}

// Parse returns the version that n names. If Module has no hostname, the host is host; see [hostname.ParseAddress]. Errors wrap
// [modproxy.ErrInvalid].
func (n Name) Parse(host string) (v modproxy.Ref, err error) {
	if v.Address, err = hostname.ParseAddress(n.Module, host); err == nil && n.Version != "" {
		var version string
		version, err = modproxy.CanonicalVersion(n.Version)
		v = v.At(version)
	}
	if err == nil && n.Platform != "" {
		var p modproxy.Platform
		if p, err = modproxy.ParsePlatform(n.Platform); err == nil && (n.Version == "" || !v.IsProvider()) {
			err = fmt.Errorf("%w: only versions of providers have packages for platforms", modproxy.ErrInvalid)
		}
		v = v.ForPlatform(p)
	}
	return v, err
}

// ParseOptional is Parse without a default host. For the zero Name it returns the zero [modproxy.Ref] without an error.
func (n Name) ParseOptional() (v modproxy.Ref, err error) {
	if n == (Name{}) {
		return v, nil
	}
	return n.Parse("")
}
