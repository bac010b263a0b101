//go:build linux

package hostile_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"

	"github.com/modproxy/modproxy/auth"
)

var (
	private = module{"corp.test", "corp", "vpc", "aws"}     // of one team
	theirs  = module{"corp.test", "same", "network", "aws"} // of another
)

// A private package is served for a token that covers it, or at the path that was signed for it. For other clients it does not exist.
func TestPrivatePackages(t *testing.T) {
	p := startOwn(t, asking)
	ours := p.token("ours", "--scope", "corp.test/corp")
	others := p.token("others", "--scope", "corp.test/same", "--scope", "up-a.test/*")
	stale := p.token("stale", "--scope", "*", "--expires", "1s")
	segment, path := p.signed(t, ours, private, "1.0.0")
	good := p.ask(http.MethodGet, "/"+segment+path, "Authorization", "")
	if good.Status != http.StatusOK {
		t.Fatalf("%d %s", good.Status, good.Said())
	}
	digest := strings.Trim(good.Header.Get("Etag"), `"`)

	p.run("good", func(t *testing.T) { goodPaths(t, p, segment, path, ours, good) })
	p.run("no-credential", func(t *testing.T) {
		first := p.ask(http.MethodGet, private.archive("1.0.0"), "Authorization", "")
		bad := p.ask(http.MethodGet, private.archive("1.0.0"), "Authorization", "Bearer none")
		if first.Status != http.StatusUnauthorized || bad.Status != http.StatusUnauthorized {
			t.Errorf("%d, %d", first.Status, bad.Status)
		}
		time.Sleep(1100 * time.Millisecond)                                            // so that one token expires
		own := p.ask(http.MethodGet, private.archive("1.0.0"), "Authorization", stale) // its owner is told the reason
		if own.Status != http.StatusUnauthorized || !strings.Contains(own.Said(), "the token stale (") {
			t.Errorf("an expired token: %d %s", own.Status, own.Said())
		}
		absent := module{"corp.test", "corp", "absent", "aws"}
		for name, who := range map[string]string{
			"nothing": "", "expired": stale, "id only": ours[:len("Bearer mp_")+16], "no such": "Bearer mp_" + strings.Repeat("a", 16) + "_" + strings.Repeat("b", 52),
			"other secret": ours[:len(ours)-52] + others[len(others)-52:], "longer": ours + "a", "upper": "Bearer " + strings.ToUpper(ours[7:]),
			"hash": "Bearer " + digest, "segment": "Bearer " + segment, "basic": "Basic " + base64.StdEncoding.EncodeToString([]byte(ours[7:]+":")),
			"another scheme": "Token " + ours[7:],
		} {
			for _, m := range []module{private, absent, {"nowhere.test", "a", "b", "c"}} {
				for _, path := range []string{m.path("versions"), m.path("1.0.0/download"), m.archive("1.0.0")} {
					want := first
					switch {
					case who == stale:
						want = own
					case who != "": // the client knows that it has shown a credential
						want = bad
					}
					alike(t, name+" "+path, p.ask(http.MethodGet, path, "Authorization", who), want)
				}
			}
		}
	})
	p.run("another-team", func(t *testing.T) {
		p.mustInstall(theirs, "1.0.0")
		absent := p.ask(http.MethodGet, module{"up-a.test", "good", "absent", "aws"}.path("versions"), "Authorization", others)
		if absent.Status != http.StatusNotFound {
			t.Errorf("absent: %d", absent.Status)
		}
		for _, m := range []module{private, {"corp.test", "corp", "absent", "aws"}, {"up-b.test", "same", "network", "aws"}, {"corp.test", "corpx", "vpc", "aws"}} {
			for _, path := range []string{m.path("versions"), m.path("1.0.0/download"), m.path("9.9.9/download"), m.archive("1.0.0")} {
				alike(t, path, p.ask(http.MethodGet, path, "Authorization", others), absent)
				head := p.ask(http.MethodHead, path, "Authorization", others)
				if head.Status != absent.Status || len(head.Body) > 0 {
					t.Errorf("HEAD %s: %d", path, head.Status)
				}
			}
		}
		alike(t, "absent, of what is theirs", p.ask(http.MethodGet, theirs.path("9.9.9/download"), "Authorization", others), absent)
		if len(world.good["corp.test"].Requests()) == 0 {
			t.Error("the registry was never asked: the case shows nothing")
		}
	})
	p.run("guessed", func(t *testing.T) { guesses(t, p, digest) })
	p.run("exchanged", func(t *testing.T) { exchanged(t, p, ours, segment, path) })
	p.run("tampered", func(t *testing.T) { tampered(t, p, ours, others, segment, path) })
	p.run("expiry", func(t *testing.T) { expiry(t, p, ours, path) })
}

// goodPaths checks the paths that must work. Without it, the refusals prove nothing.
func goodPaths(t *testing.T, p *proxy, segment, path, ours string, good rig.Answer) {
	unpack(t, good.Body)
	for name, at := range map[string][]string{
		"signed":   {"/" + segment + path, "Authorization", ""},
		"query":    {"/" + segment + path + "?terraform-get=1", "Authorization", ""},
		"archive":  {"/" + segment + path + "?archive=false&terraform-get=1", "Authorization", ""},
		"token":    {path, "Authorization", ours},
		"password": {path, "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+ours[7:]))},
		"both":     {"/" + segment + path, "Authorization", ours},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			a := p.ask(method, at[0], at[1:]...)
			if a.Status != http.StatusOK || a.Header.Get("Content-Length") != fmt.Sprint(len(good.Body)) || a.Header.Get("Etag") != good.Header.Get("Etag") {
				t.Errorf("%s %s: %d %v", method, name, a.Status, a.Header)
			}
			if method == http.MethodGet && !bytes.Equal(a.Body, good.Body) {
				t.Errorf("%s: other bytes", name)
			}
		}
		part := p.ask(http.MethodGet, at[0], append(at[1:], "Range", "bytes=10-19")...)
		if part.Status != http.StatusPartialContent || !bytes.Equal(part.Body, good.Body[10:20]) {
			t.Errorf("%s, a part: %d %q", name, part.Status, part.Body)
		}
		same := p.ask(http.MethodGet, at[0], append(at[1:], "If-None-Match", good.Header.Get("Etag"))...)
		if same.Status != http.StatusNotModified || len(same.Body) > 0 {
			t.Errorf("%s, if it is another: %d", name, same.Status)
		}
	}
}

// refusedAlike checks that paths are refused without a credential, all alike, apart from the form with a segment.
func refusedAlike(t *testing.T, p *proxy, paths map[string]string) {
	t.Helper()
	firsts := map[bool]rig.Answer{}
	for name, path := range paths {
		segment := strings.HasPrefix(path, "/s_")
		for _, headers := range [][]string{nil, {"Range", "bytes=0-3"}, {"If-None-Match", "*"}} {
			a := p.ask(http.MethodGet, path, append(headers, "Authorization", "")...)
			if a.Status != http.StatusUnauthorized {
				t.Errorf("%s: %d", name, a.Status)
			}
			if firsts[segment].Header == nil {
				firsts[segment] = a
			}
			alike(t, name, a, firsts[segment])
		}
		if a := p.ask(http.MethodHead, path, "Authorization", ""); a.Status != http.StatusUnauthorized || len(a.Body) > 0 {
			t.Errorf("HEAD %s: %d", name, a.Status)
		}
	}
}

// guesses checks that the digest of a package, or its name, gives no access.
func guesses(t *testing.T, p *proxy, digest string) {
	file := private.archive("1.0.0")
	refusedAlike(t, p, map[string]string{
		"name":            file,
		"query":           file + "?digest=" + digest + "&token=" + digest,
		"as segment":      "/s_" + digest + file,
		"empty segment":   "/s_" + file,
		"zeros":           "/s_" + strings.Repeat("A", 72) + file,
		"absent":          module{"corp.test", "corp", "absent", "aws"}.archive("1.0.0"),
		"absent, segment": "/s_" + strings.Repeat("A", 72) + module{"corp.test", "corp", "absent", "aws"}.archive("1.0.0"),
		"absent version":  "/s_" + strings.Repeat("A", 72) + private.archive("9.9.9"),
	})
	for _, path := range []string{"/blobs/" + digest, "/blobs/sha256/" + digest[:2] + "/" + digest, "/sha256/" + digest, "/-/blobs/" + digest, "/" + digest, "/v2/blobs/sha256:" + digest} {
		if a := p.ask(http.MethodGet, path, "Authorization", ""); a.Status != http.StatusNotFound && a.Status != http.StatusUnauthorized || bytes.HasPrefix(a.Body, []byte("\x1f\x8b")) {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
}

// exchanged checks that a segment works only for its package, its version and the spelling of its path.
func exchanged(t *testing.T, p *proxy, ours, segment, path string) {
	wide := p.token("wide", "--scope", "*")
	_, theirPath := p.signed(t, wide, theirs, "1.0.0")
	wideSegment, _ := p.signed(t, wide, private, "1.0.0")
	twin := module{"up-a.test", "same", "network", "aws"} // same name at another registry, with other bytes
	p.mustInstall(twin, "1.0.0")
	paths := map[string]string{
		"another module":   "/" + segment + theirPath,
		"of who reads all": "/" + wideSegment + theirPath,
		"another registry": "/" + wideSegment + twin.archive("1.0.0"),
		"another version":  "/" + segment + private.archive("99.0.0"),
		"twice":            "/" + segment + "/" + segment + path,
		"versions":         "/" + segment + private.path("versions"),
		"download":         "/" + segment + private.path("1.0.0/download"),
		"file name":        "/" + segment + strings.Replace(path, "vpc-aws-1.0.0", "vpc-aws-1.0.1", 1),
		"case":             "/" + segment + strings.Replace(path, "vpc", "VPC", 2),
		"own hostname":     "/" + segment + "/v1/modules/same/network/aws/1.0.0/network-aws-1.0.0.tar.gz",
		"dots":             "/" + segment + "/x/.." + path,
		"below another":    "/prefix/" + segment + path,
	}
	for name, at := range paths {
		a := p.ask(http.MethodGet, at, "Authorization", "")
		if a.Status != http.StatusUnauthorized && a.Status != http.StatusNotFound && a.Status != http.StatusForbidden && a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, a.Status)
		}
		if bytes.HasPrefix(a.Body, []byte("\x1f\x8b")) {
			t.Errorf("%s: a package", name)
		}
	}
}

// tampered checks that every bit of a segment counts.
func tampered(t *testing.T, p *proxy, ours, others, segment, path string) {
	coding := base64.RawURLEncoding
	raw, err := coding.DecodeString(segment[2:])
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	change := func(name string, f func(b []byte)) {
		b := slices.Clone(raw)
		f(b)
		paths[name] = "/s_" + coding.EncodeToString(b) + path
	}
	for i := range raw {
		change(fmt.Sprintf("byte %d", i), func(b []byte) { b[i] ^= 1 << (i % 8) })
	}
	const expiry, id, mac = 2, 6, 22
	change("kind", func(b []byte) { b[1] = byte(auth.ByIssuer) })
	change("nobody", func(b []byte) { b[1] = byte(auth.Nobody) })
	change("principal", func(b []byte) { copy(b[id:mac], others[len("Bearer mp_"):][:16]) })
	change("later", func(b []byte) { b[expiry+2]++ })
	change("never", func(b []byte) { copy(b[expiry:id], "\xff\xff\xff\xff") })
	change("no MAC", func(b []byte) { clear(b[mac:]) })
	paths["shorter"] = "/" + segment[:len(segment)-1] + path
	paths["longer"] = "/" + segment + "A" + path
	paths["padded"] = "/" + segment + "=" + path
	paths["spare bit"] = "/" + segment[:len(segment)-1] + string(segment[len(segment)-1]+1) + path
	paths["hexadecimal"] = "/s_" + hex.EncodeToString(raw) + path
	paths["upper"] = "/" + strings.ToUpper(segment) + path
	if len(paths) != len(raw)+12 {
		t.Errorf("%d changes of %d", len(paths), len(raw)+12)
	}
	delete(paths, "upper") // begins with S_, and is not a segment
	refusedAlike(t, p, paths)
	if a := p.ask(http.MethodGet, "/"+segment+path, "Authorization", ""); a.Status != http.StatusOK {
		t.Errorf("the good one: %d", a.Status)
	}
}

// expiry checks that a path expires to the second. The test signs a path that expires soon with the program's key, as the program would
// have done some minutes ago.
func expiry(t *testing.T, p *proxy, ours, path string) {
	end, life := endsSoon(brief(t, 3*time.Second))
	signer, err := auth.OpenSigner(t.Context(), filepath.Join(p.data, "auth", "key"), auth.SignerConfig{Life: life})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	who := auth.Principal{Kind: auth.ByToken, ID: ours[len("Bearer mp_"):][:16]}
	sign := func(end time.Time) string {
		signed, err := signer.Path(who, path, now.Add(end.Sub(now)-2*life+life/2))
		if err != nil {
			t.Fatal(err)
		}
		segment, _ := auth.CutSegment(signed)
		p.unwritten = append(p.unwritten, segment)
		return signed
	}
	refusedAlike(t, p, map[string]string{"long over": sign(end.Add(-life)), "signed in the future": sign(end.Add(4 * life))})
	soon, worked := sign(end), 0
	const slack = 200 * time.Millisecond // between two clocks
	for asked := time.Now(); asked.Before(end.Add(time.Second)); asked = time.Now() {
		a := p.ask(http.MethodGet, soon, "Authorization", "")
		switch left := time.Until(end); {
		case left > slack && a.Status != http.StatusOK:
			t.Fatalf("%v before its end: %d", left, a.Status)
		case left > slack:
			worked++
		case asked.After(end.Add(slack)) && a.Status != http.StatusUnauthorized:
			t.Fatalf("%v after its end: %d", asked.Sub(end), a.Status)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if worked == 0 {
		t.Error("it was never good: the case shows nothing")
	}
	refusedAlike(t, p, map[string]string{"a second over": soon})
}

// endsSoon returns a time after which paths end, and the life of such paths: ends are multiples of the life, counted from 1970.
func endsSoon(after time.Duration) (end time.Time, life time.Duration) {
	for end = time.Now().Add(after).Truncate(time.Second); ; end = end.Add(time.Second) {
		for seconds := int64(60); seconds <= 3600; seconds++ {
			if end.Unix()%seconds == 0 {
				return end, time.Duration(seconds) * time.Second
			}
		}
	}
}
