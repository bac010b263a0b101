package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// A stored record is three parts, of which each ends where a newline is, but for
// the last: the SHA-256 of the other two in hexadecimal, a JSON object that says
// what the record is about, and a versions document or nothing. Records in the
// index and sidecars are the same bytes.

// about is what a record is about.
type about struct {
	Host      string `json:"host"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	System    string `json:"system"`
	Version   string `json:"version,omitempty"`
}

func aboutOf(m modproxy.Module, version string) about {
	return about{m.Host, m.Namespace, m.Name, m.System, version}
}

func (a about) module() modproxy.Module {
	return modproxy.Module{Host: a.Host, Namespace: a.Namespace, Name: a.Name, System: a.System}
}

type versionsHeader struct {
	about
	cache.VersionsRecord
}

type packageHeader struct {
	about
	cache.PackageRecord
}

// errDamaged: a record is not what was written.
var errDamaged = errors.New("the record is damaged")

func seal(header any, document []byte) ([]byte, error) {
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	rest := append(append(text, '\n'), document...)
	sum := sha256.Sum256(rest)
	return append(append(hex.AppendEncode(nil, sum[:]), '\n'), rest...), nil
}

// unseal checks what seal gave, and reads the header into header.
func unseal(sealed []byte, header any) (document []byte, err error) {
	sum, rest, ok := bytes.Cut(sealed, []byte{'\n'})
	if !ok {
		return nil, errDamaged
	}
	want := sha256.Sum256(rest)
	if string(sum) != hex.EncodeToString(want[:]) {
		return nil, errDamaged
	}
	text, document, ok := bytes.Cut(rest, []byte{'\n'})
	if !ok {
		return nil, errDamaged
	}
	if err := json.Unmarshal(text, header); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return document, nil
}

func sealVersions(m modproxy.Module, rec cache.VersionsRecord) ([]byte, error) {
	return seal(versionsHeader{aboutOf(m, ""), rec}, rec.Document)
}

func unsealVersions(sealed []byte, m modproxy.Module) (cache.VersionsRecord, error) {
	var h versionsHeader
	document, err := unseal(sealed, &h)
	if err == nil && h.about != aboutOf(m, "") {
		err = errDamaged
	}
	if err != nil {
		return cache.VersionsRecord{}, err
	}
	h.Document = bytes.Clone(document)
	return h.VersionsRecord, nil
}

func sealPackage(m modproxy.Module, version string, rec cache.PackageRecord) ([]byte, error) {
	for _, s := range []string{version, rec.Subdir, string(rec.Sum), rec.Source.URL, rec.Source.Commit, rec.Notes} {
		if !utf8.ValidString(s) { // JSON would keep something else
			return nil, fmt.Errorf("%w: %.80q is not UTF-8", modproxy.ErrInvalid, s)
		}
	}
	return seal(packageHeader{aboutOf(m, version), rec}, nil)
}

// unsealPackage reads a record that says by itself what it is about.
func unsealPackage(sealed []byte) (cache.Kept, error) {
	var h packageHeader
	document, err := unseal(sealed, &h)
	if err == nil && len(document) != 0 {
		err = errDamaged
	}
	if err != nil {
		return cache.Kept{}, err
	}
	return cache.Kept{Module: h.module(), Version: h.Version, Record: h.PackageRecord}, nil
}

// moduleKey is the module's tuple, every part behind its length: no part can be
// taken for another, and the key of a module is the beginning of the keys of its
// versions and of nothing else. The zero Module has the empty key, with which
// all begin.
func moduleKey(m modproxy.Module) []byte {
	if m == (modproxy.Module{}) {
		return nil
	}
	var k []byte
	for _, part := range []string{m.Host, m.Namespace, m.Name, m.System} {
		k = appendPart(k, part)
	}
	return k
}

func packageKey(m modproxy.Module, version string) []byte {
	return appendPart(moduleKey(m), version)
}

func appendPart(k []byte, part string) []byte {
	return append(binary.AppendUvarint(k, uint64(len(part))), part...)
}

// parseKey is the inverse of packageKey.
func parseKey(k []byte) (m modproxy.Module, version string, ok bool) {
	var parts [5]string
	for i := range parts {
		n, size := binary.Uvarint(k)
		if size <= 0 || n > uint64(len(k)-size) {
			return modproxy.Module{}, "", false
		}
		parts[i], k = string(k[size:size+int(n)]), k[size+int(n):]
	}
	m = modproxy.Module{Host: parts[0], Namespace: parts[1], Name: parts[2], System: parts[3]}
	return m, parts[4], len(k) == 0
}
