// Package release reads and verifies one version of a provider, for all its platforms.
//
// A release begins with the answers of a registry and of the servers that it names:
//
//	d, err := release.ParseDownload(document, base, platform) // the document about one platform
//	sums, err := release.ParseSums(text)                      // SHA256SUMS
//	signer, err := release.Verify(text, signature, d.Keys, time.Now())
//	facts, err := release.CheckZip(archive, size, typ, release.ZipLimits{})
//
// A [Release] has everything that is needed to repeat these answers. Its files are a package like any other: see
// [Release.Files] and [Parse].
//
// Invariants: the package makes no requests and reads no clock. Invalid input from a registry or publisher is
// [modproxy.ErrInvalid]. All input is bounded.
//
// The behaviour is that of Terraform 1.11 and OpenTofu 1.12 (internal/getproviders/registry_client.go and
// package_authentication.go of both), with bounds, and with errors where these panic. Unless a comment says otherwise,
// input that only one of them accepts is refused.
package release

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/modproxy/modproxy"
)

// Bounds of untrusted input; sizes are in bytes.
const (
	MaxDownload  = 256 << 10 // of a download document
	MaxSums      = 256 << 10 // of SHA256SUMS
	MaxSignature = 64 << 10  // of its signature

	maxPlatforms = 128 // as in a versions document
	maxProtocols = 16
	maxKeys      = 64
	maxHashes    = 16 // of the package of one platform
	maxURL       = 8 << 10
	maxText      = 1 << 10 // of other strings
	maxArmor     = 256 << 10
)

// Release is one version of a provider. The zero Release is invalid and has no files.
type Release struct {
	Protocols []string  // of plugins, as the registry lists them: "5.0"; may be empty
	Archives  []Archive // sorted by platform, at least one
	Sums      []byte    // SHA256SUMS, unchanged; it has the name and checksum of each of Archives
	Signature []byte    // of Sums, unchanged
	Keys      []Key     // as the registry lists them, in its order
	// Packages is the registry's data about the archives of all platforms, by [modproxy.Platform.String]. It may be empty.
	// OpenTofu writes these hashes into lock files without checking them.
	Packages map[string]ArchiveHashes
	// Unsigned reports that the registry lists no key. OpenTofu installs such releases, only of registry.opentofu.org, and
	// ignores their Signature. Any other release has a signature by one of Keys.
	Unsigned bool
}

// Archive is the package of a release for one platform.
type Archive struct {
	modproxy.Platform
	File   string          `json:"file"`          // its name in SHA256SUMS: terraform-provider-null_3.2.4_linux_amd64.zip
	Digest modproxy.Digest `json:"sha256"`        // in lock files after zh:
	URL    string          `json:"url,omitempty"` // for people: without user information, query and fragment
}

// Unallowed returns the error for a release without keys whose provider the operator has not excepted: the error of [Verify] with the
// Reason [NoKeys], and with the setting for the exception (providers.unsigned). Callers that know the exceptions return it instead of
// the error of Verify.
func Unallowed() error {
	_, err := verify(nil, nil, nil, time.Time{})
	return fmt.Errorf("%w (operator: if the registry signs none of its providers, providers.unsigned can allow them)", err)
}

// Key is an OpenPGP key as registries list it (gpg_public_keys).
type Key struct {
	ID             string `json:"key_id"`
	Armor          string `json:"ascii_armor,omitempty"`     // the key; the only field that both clients read
	TrustSignature string `json:"trust_signature,omitempty"` // armored; Terraform fails if it is broken
	Source         string `json:"source,omitempty"`
	SourceURL      string `json:"source_url,omitempty"`
}

// ArchiveHashes is the data of OpenTofu's registry about an archive (rfc/20251027-provider-registry-hashes.md).
type ArchiveHashes struct {
	Hashes []string `json:"hashes"`       // "zh:" and hexadecimal, "h1:" and base64
	Size   int64    `json:"package_size"` // bytes
}

// invalid returns an error about invalid input.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", modproxy.ErrInvalid, fmt.Errorf(format, args...))
}

// check returns an error unless r is a valid release that has files. It verifies the signature and ignores all times.
func (r *Release) check() error {
	if len(r.Archives) == 0 || len(r.Archives) > maxPlatforms {
		return invalid("release: %d platforms: want 1 to %d", len(r.Archives), maxPlatforms)
	}
	if err := checkProtocols(r.Protocols); err != nil {
		return err
	}
	sums, err := ParseSums(r.Sums)
	if err != nil && sums == nil { // a blank line harms clients, but not modproxy
		return err
	}
	for i, a := range r.Archives {
		if err := a.check(); err != nil {
			return err
		}
		if i > 0 && comparePlatforms(r.Archives[i-1].Platform, a.Platform) >= 0 {
			return invalid("release: its platforms are not sorted, or one appears twice: %s", a.Platform)
		}
		if err := sums.Check(a.File, a.Digest); err != nil {
			return err
		}
		if err := checkFacts(r.Packages, a.Platform, a.Digest); err != nil {
			return err
		}
	}
	switch {
	case len(r.Signature) > MaxSignature:
		return invalid("release: its signature has more than the %d bytes that are allowed", MaxSignature)
	case r.Unsigned && len(r.Keys) > 0:
		return invalid("release: it is marked as unsigned, but has keys")
	case r.Unsigned:
		return nil
	}
	for _, k := range r.Keys {
		if err := k.check(); err != nil {
			return err
		}
	}
	_, err = verify(r.Sums, r.Signature, r.Keys, time.Time{})
	return err
}

func comparePlatforms(a, b modproxy.Platform) int {
	return cmp.Or(strings.Compare(a.OS, b.OS), strings.Compare(a.Arch, b.Arch))
}

func (a Archive) check() error {
	if _, err := modproxy.ParsePlatform(a.Platform.String()); err != nil {
		return err
	}
	if err := checkFile(a.File); err != nil {
		return err
	}
	u, err := url.Parse(a.URL)
	if err != nil || len(a.URL) > maxURL || u.String() != a.URL || a.URL != "" && a.URL != harmless(u) {
		return invalid("release: %s: its URL is not one that may be shown", a.Platform)
	}
	return nil
}

// harmless returns u without the parts that may be secret.
func harmless(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// checkFile refuses a name that cannot be a field of SHA256SUMS, or cannot name a file in one directory.
func checkFile(name string) error {
	bad := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '/' || r == '\\' || r == utf8.RuneError
	}
	if name == "" || name == "." || name == ".." || len(name) > 255 || strings.ContainsFunc(name, bad) {
		return invalid("release: the file name %.80q: want 1 to 255 bytes without space, control characters and slashes", name)
	}
	return nil
}

// protocolPattern matches the versions that clients can parse, without pre-releases and build metadata.
var protocolPattern = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9}){0,2}$`)

// checkProtocols refuses protocols that make a client fail.
func checkProtocols(protocols []string) error {
	if len(protocols) > maxProtocols {
		return invalid("release: more than the %d protocols that are allowed", maxProtocols)
	}
	for _, p := range protocols {
		if !protocolPattern.MatchString(p) {
			return invalid("release: the protocol %.80q cannot be parsed by clients: want one like 5.0", p)
		}
	}
	return nil
}

func (k Key) check() error {
	for _, s := range []string{k.ID, k.Source, k.SourceURL} {
		if len(s) > maxText || !utf8.ValidString(s) {
			return invalid("release: a field of a key is longer than the %d bytes that are allowed, or not UTF-8", maxText)
		}
	}
	if len(k.TrustSignature) > maxArmor || !utf8.ValidString(k.TrustSignature+k.Armor) {
		return invalid("release: a trust signature of more than the %d bytes that are allowed, or a key that is not UTF-8", maxArmor)
	}
	return nil
}

// checkFacts refuses facts that make OpenTofu fail to install the archive for a platform (registryPackageAuthentication).
func checkFacts(packages map[string]ArchiveHashes, p modproxy.Platform, digest modproxy.Digest) error {
	if len(packages) == 0 {
		return nil
	}
	if len(packages) > maxPlatforms {
		return invalid("release: packages: more than the %d platforms that are allowed", maxPlatforms)
	}
	for name, f := range packages {
		if _, err := modproxy.ParsePlatform(name); err != nil {
			return err
		}
		if len(f.Hashes) > maxHashes || f.Size <= 0 {
			return invalid("release: packages: %s: want at most %d hashes, and a size", name, maxHashes)
		}
		for _, h := range f.Hashes {
			if scheme, _, ok := strings.Cut(h, ":"); !ok || scheme == "" || len(h) > maxText || !utf8.ValidString(h) {
				return invalid("release: packages: %s: %.80q is not a hash", name, h)
			}
		}
	}
	zip := slices.DeleteFunc(slices.Clone(packages[p.String()].Hashes), func(h string) bool { return !strings.HasPrefix(h, "zh:") })
	if len(zip) == 0 || slices.ContainsFunc(zip, func(h string) bool { return h != "zh:"+digest.String() }) {
		return invalid("release: packages: %s: want the checksum of its archive, zh:%s, and no other zh", p, digest)
	}
	return nil
}
