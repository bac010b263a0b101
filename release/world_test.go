package release

import (
	"archive/zip"
	"bytes"
	"crypto"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/modproxy/modproxy"
)

var (
	now   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	linux = modproxy.Platform{OS: "linux", Arch: "amd64"}
	mac   = modproxy.Platform{OS: "darwin", Arch: "arm64"}
)

// at returns a configuration for keys and signatures that are made at t.
func at(t time.Time) *packet.Config {
	return &packet.Config{Time: func() time.Time { return t }, Algorithm: packet.PubKeyAlgoEdDSA, DefaultHash: crypto.SHA256}
}

func newEntity(t testing.TB, c *packet.Config) *openpgp.Entity {
	t.Helper()
	e, err := openpgp.NewEntity("somebody", "", "somebody@example.com", c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func listed(t testing.TB, entities ...*openpgp.Entity) Key {
	t.Helper()
	var raw bytes.Buffer
	for _, e := range entities {
		if err := e.Serialize(&raw); err != nil {
			t.Fatal(err)
		}
	}
	return armored(t, raw.Bytes())
}

func armored(t testing.TB, raw []byte) Key {
	t.Helper()
	var text strings.Builder
	w, err := armor.Encode(&text, openpgp.PublicKeyType, nil)
	if err == nil {
		_, err = w.Write(raw)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return Key{ID: "0123456789ABCDEF", Armor: text.String(), Source: "Somebody"}
}

func sign(t testing.TB, e *openpgp.Entity, document []byte, c *packet.Config) []byte {
	t.Helper()
	var sig bytes.Buffer
	if err := openpgp.DetachSign(&sig, e, bytes.NewReader(document), c); err != nil {
		t.Fatal(err)
	}
	return sig.Bytes()
}

func sumsOf(names ...string) []byte {
	var b bytes.Buffer
	for _, n := range names {
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256([]byte(n)), n)
	}
	return b.Bytes()
}

func digestOf(name string) modproxy.Digest { return sha256.Sum256([]byte(name)) }

// example returns a release for two platforms, signed with two keys.
func example(t testing.TB) *Release {
	t.Helper()
	e, other := newEntity(t, at(now)), newEntity(t, at(now))
	sums := sumsOf("p_darwin_arm64.zip", "p_linux_amd64.zip", "manifest.json")
	return &Release{
		Protocols: []string{"5.0", "6.0"},
		Archives: []Archive{
			{Platform: mac, File: "p_darwin_arm64.zip", Digest: digestOf("p_darwin_arm64.zip"), URL: "https://example.com/a&b%20c.zip"},
			{Platform: linux, File: "p_linux_amd64.zip", Digest: digestOf("p_linux_amd64.zip")},
		},
		Sums: sums, Signature: sign(t, e, sums, at(now)), Keys: []Key{listed(t, other), listed(t, e)},
		Packages: map[string]ArchiveHashes{
			"linux_amd64":  {Hashes: []string{"zh:" + digestOf("p_linux_amd64.zip").String(), "h1:x"}, Size: 3},
			"darwin_arm64": {Hashes: []string{"zh:" + digestOf("p_darwin_arm64.zip").String()}, Size: 4},
		},
	}
}

// A zipped is an entry of a zip archive.
type zipped struct {
	name, content string
	change        func(*zip.FileHeader)
}

func zipOf(t testing.TB, entries ...zipped) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if strings.HasSuffix(e.name, "/") {
			h.Method = zip.Store
		}
		if e.change != nil {
			e.change(h)
		}
		to, err := w.CreateHeader(h)
		if err == nil && e.content != "" {
			_, err = to.Write([]byte(e.content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
