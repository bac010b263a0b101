package release

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"

	"github.com/modproxy/modproxy"
)

// Download is a registry's data about a release for one platform.
type Download struct {
	Protocols []string // may be empty
	Archive   Archive
	// ZipURL, SumsURL and SignatureURL are absolute, http or https. They may contain secrets.
	ZipURL, SumsURL, SignatureURL *url.URL
	Keys                          []Key                    // the keys that clients can read, in the registry's order; may be empty
	Packages                      map[string]ArchiveHashes // nil if OpenTofu would accept none of them
	Dropped                       []string                 // for people: omitted parts of the document, with the reason
}

// ParseDownload reads the answer to namespace/type/version/download/os/arch for platform p. base is the URL of the
// answer after all redirects. Other URLs may be relative to it.
//
// As for the clients (PackageMeta in registry_client.go), the answer must name its platform and have a checksum of 64
// hexadecimal digits. Protocols may be missing. Unknown keys and content after the document are ignored. A missing URL
// means the base. Optional parts that would crash or fail a client are omitted: keys that are null or unreadable, and
// invalid packages.
//
// Errors: [modproxy.ErrInvalid].
func ParseDownload(document []byte, base *url.URL, p modproxy.Platform) (*Download, error) {
	if len(document) > MaxDownload {
		return nil, invalid("download document: more than the %d bytes that are allowed", MaxDownload)
	}
	var read struct {
		Protocols    []string        `json:"protocols"`
		OS           string          `json:"os"`
		Arch         string          `json:"arch"`
		File         string          `json:"filename"`
		ZipURL       string          `json:"download_url"`
		SumsURL      string          `json:"shasums_url"`
		SignatureURL string          `json:"shasums_signature_url"`
		Digest       string          `json:"shasum"`
		Packages     json.RawMessage `json:"packages"`
		SigningKeys  struct {
			GPG []*Key `json:"gpg_public_keys"`
		} `json:"signing_keys"`
	}
	if err := json.NewDecoder(bytes.NewReader(document)).Decode(&read); err != nil {
		return nil, invalid("download document: %w", err)
	}
	if said := (modproxy.Platform{OS: read.OS, Arch: read.Arch}); said != p {
		return nil, invalid("download document: it is for %.80q, but %s was requested", said, p)
	}
	d := &Download{Protocols: read.Protocols, Archive: Archive{Platform: p, File: read.File}}
	if err := checkProtocols(d.Protocols); err != nil {
		return nil, err
	}
	digest, err := hex.DecodeString(read.Digest)
	if err != nil || len(digest) != len(d.Archive.Digest) {
		return nil, invalid("download document: the checksum %.80q: want 64 hexadecimal digits", read.Digest)
	}
	copy(d.Archive.Digest[:], digest)
	for _, u := range []struct {
		name, ref string
		to        **url.URL
	}{
		{"download_url", read.ZipURL, &d.ZipURL},
		{"shasums_url", read.SumsURL, &d.SumsURL},
		{"shasums_signature_url", read.SignatureURL, &d.SignatureURL},
	} {
		if *u.to, err = resolve(base, u.ref); err != nil {
			return nil, invalid("download document: %s: %w", u.name, err)
		}
	}
	d.Archive.URL = harmless(d.ZipURL)
	if err := d.Archive.check(); err != nil {
		return nil, err
	}
	if len(read.SigningKeys.GPG) > maxKeys {
		return nil, invalid("download document: more than the %d keys that are allowed", maxKeys)
	}
	d.addKeys(read.SigningKeys.GPG)
	d.addPackages(read.Packages)
	return d, nil
}

// PackagesOf returns d.Packages for a release with these archives. It returns nil if OpenTofu would refuse one of the
// archives because of it.
func (d *Download) PackagesOf(archives []Archive) map[string]ArchiveHashes {
	for _, a := range archives {
		if checkFacts(d.Packages, a.Platform, a.Digest) != nil {
			return nil
		}
	}
	return d.Packages
}

// resolve returns the URL of ref relative to base. Its errors contain nothing of ref.
func resolve(base *url.URL, ref string) (*url.URL, error) {
	u, err := url.Parse(ref)
	switch {
	case err != nil:
		return nil, errors.New("it cannot be parsed")
	case len(ref) > maxURL:
		return nil, errors.New("it is too long")
	}
	u = base.ResolveReference(u)
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("want http or https, and a host")
	}
	return u, nil
}

func (d *Download) addKeys(listed []*Key) {
	budget := newBudget()
	for _, k := range listed {
		switch {
		case k == nil:
			d.Dropped = append(d.Dropped, "a key that is null")
		case k.check() != nil:
			d.Dropped = append(d.Dropped, "a key with fields that are too long")
		default:
			if _, err := budget.read(k.Armor); err != nil {
				d.Dropped = append(d.Dropped, "a key that cannot be read: "+err.Error())
			} else {
				d.Keys = append(d.Keys, *k)
			}
		}
	}
}

func (d *Download) addPackages(text json.RawMessage) {
	if len(text) == 0 {
		return
	}
	var packages map[string]ArchiveHashes
	err := json.Unmarshal(text, &packages)
	if err == nil {
		err = checkFacts(packages, d.Archive.Platform, d.Archive.Digest)
	}
	if err != nil {
		d.Dropped = append(d.Dropped, "packages: "+err.Error())
		return
	}
	if len(packages) > 0 {
		d.Packages = packages
	}
}
