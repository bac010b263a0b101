package modproxy

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ProviderFacts describe the content of a provider's version, beside its Sum. They are zero for a module. Facts are comparable.
type ProviderFacts struct {
	Zips   Zips    `json:"zips,omitempty"`   // of a release: the archives in its checksums document
	Keys   Keys    `json:"keys,omitempty"`   // of a release: the keys that signed it; empty if it is unsigned
	Hashes Hashes  `json:"hashes,omitempty"` // of an archive: the h1 sums in lock files, of the directory and, if different, the archive
	Others Digests `json:"others,omitempty"` // of a release: other files in the checksums document, such as a manifest; clients lock them
}

// Zips are the archives of a release, each with its SHA-256, sorted by platform: "darwin_arm64:9f86… linux_amd64:60b1…".
type Zips string

// NewZips returns the Zips with the entries of a map.
func NewZips(all map[Platform]Digest) Zips {
	var words []string
	for p, d := range all {
		words = append(words, p.String()+":"+d.String())
	}
	slices.Sort(words)
	return Zips(strings.Join(words, " "))
}

// All returns the archives by platform. It returns [ErrInvalid] if z is not a result of [NewZips].
func (z Zips) All() (map[Platform]Digest, error) {
	all := map[Platform]Digest{}
	for word := range strings.FieldsSeq(string(z)) {
		name, digits, _ := strings.Cut(word, ":")
		p, errPlatform := ParsePlatform(name)
		d, errDigest := ParseDigest(digits)
		if errPlatform != nil || errDigest != nil {
			return nil, fmt.Errorf("%w: %.160q is not a platform with a digest", ErrInvalid, word)
		}
		all[p] = d
	}
	if NewZips(all) != z {
		return nil, fmt.Errorf("%w: %.160q is not a list of platforms with digests", ErrInvalid, z)
	}
	return all, nil
}

// Of returns the SHA-256 of the archive for a platform, and whether z has one.
func (z Zips) Of(p Platform) (Digest, bool) {
	all, _ := z.All()
	d, ok := all[p]
	return d, ok
}

// Extends reports whether z has every archive of old, with the same digests.
func (z Zips) Extends(old Zips) bool {
	all, err := z.All()
	before, errOld := old.All()
	for p, d := range before {
		if all[p] != d {
			return false
		}
	}
	return err == nil && errOld == nil
}

// Digests are the SHA-256 of files, sorted and separated by blanks.
type Digests string

// NewDigests returns the given Digests, each once.
func NewDigests(list ...Digest) Digests {
	var words []string
	for _, d := range list {
		words = append(words, d.String())
	}
	slices.Sort(words)
	return Digests(strings.Join(slices.Compact(words), " "))
}

// All returns the digests. It returns [ErrInvalid] if d is not a result of [NewDigests].
func (d Digests) All() (all []Digest, err error) {
	for word := range strings.FieldsSeq(string(d)) {
		one, err := ParseDigest(word)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if NewDigests(all...) != d {
		return nil, fmt.Errorf("%w: %.160q is not a sorted list of digests", ErrInvalid, d)
	}
	return all, nil
}

// Keys are the fingerprints of OpenPGP primary keys, in upper-case hexadecimal digits, sorted and separated by blanks.
type Keys string

var fingerprint = regexp.MustCompile(`^[0-9A-F]{40}([0-9A-F]{24})?$`)

// NewKeys returns the Keys with these fingerprints, in upper or lower case. Errors wrap [ErrInvalid].
func NewKeys(fingerprints ...string) (Keys, error) {
	all := map[string]bool{}
	for _, f := range fingerprints {
		f = strings.ToUpper(strings.ReplaceAll(f, " ", ""))
		if !fingerprint.MatchString(f) {
			return "", fmt.Errorf("%w: key %.80q: want the 40 or 64 hexadecimal digits of a fingerprint", ErrInvalid, f)
		}
		all[f] = true
	}
	return Keys(strings.Join(slices.Sorted(maps.Keys(all)), " ")), nil
}

// All returns the fingerprints.
func (k Keys) All() []string { return strings.Fields(string(k)) }

// Check returns [ErrInvalid] if k is not a result of [NewKeys].
func (k Keys) Check() error {
	if again, err := NewKeys(k.All()...); err != nil || again != k {
		return fmt.Errorf("%w: %.160q is not a sorted list of fingerprints", ErrInvalid, k)
	}
	return nil
}

// Intersects reports whether k and others have a key in common.
func (k Keys) Intersects(others Keys) bool {
	return slices.ContainsFunc(k.All(), func(f string) bool { return slices.Contains(others.All(), f) })
}

// Union returns the keys of k and others.
func (k Keys) Union(others Keys) Keys {
	both, _ := NewKeys(append(k.All(), others.All()...)...) // NewKeys made both
	return both
}

// Hashes are one or two sums of the files in an archive, separated by a blank, in the form of golang.org/x/mod/sumdb/dirhash.
// The first is the sum of the unpacked directory, which clients lock. The second is the sum of the archive, if its entries
// for directories make it different (golang/go#53448).
type Hashes string

// NewHashes returns the Hashes of an archive.
func NewHashes(directory, archive Sum) Hashes {
	if directory == archive {
		return Hashes(directory)
	}
	return Hashes(directory + " " + archive)
}

// All returns the sums.
func (h Hashes) All() (all []Sum) {
	for word := range strings.FieldsSeq(string(h)) {
		all = append(all, Sum(word))
	}
	return all
}

// Check returns [ErrInvalid] if h is not empty and not one or two sums.
func (h Hashes) Check() error {
	all := h.All()
	for _, sum := range all {
		if _, err := sum.Hash(); err != nil {
			return err
		}
	}
	if len(all) > 2 || strings.Join(strings.Fields(string(h)), " ") != string(h) {
		return fmt.Errorf("%w: %.160q is not one or two sums", ErrInvalid, h)
	}
	return nil
}

// Record returns the record of k as the keys that may sign the releases of m. Its Subdir, Source, Time and Reason are zero.
func (k Keys) Record(m Address) Record {
	return Record{Ref: m.SigningKeys(), Sum: NewSum(sha256.Sum256([]byte(k))), ProviderFacts: ProviderFacts{Keys: k}}
}
