package auth_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

func TestKeyIsKept(t *testing.T) {
	f := newSigned(t, auth.SignerConfig{})
	segment := f.sign(t)
	info, err := os.Stat(f.key())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	again := f.open(t, auth.SignerConfig{Tokens: f.tokens})
	if _, err := again.Redeem(segment, vpcPath, vpc, f.now); err != nil {
		t.Error(err)
	}
	without := f.open(t, auth.SignerConfig{})
	if _, err := without.Redeem(segment, vpcPath, vpc, f.now); !errors.Is(err, modproxy.ErrUnauthorized) {
		t.Error(err)
	}
	elsewhere := newSigned(t, auth.SignerConfig{Tokens: f.tokens})
	if _, err := elsewhere.signer.Redeem(segment, vpcPath, vpc, f.now); !strings.Contains(why(err), "not signed") {
		t.Error(err)
	}
}

func TestRotateKey(t *testing.T) {
	f := newSigned(t, auth.SignerConfig{})
	job := f.signFor(t, f.job, vpcPath, f.now)
	rotate := func() {
		t.Helper()
		if err := auth.RotateKey(t.Context(), f.key(), f.now); err != nil {
			t.Fatal(err)
		}
		f.now = f.now.Add(time.Second) // the signer notices the change within a second
	}
	rotate()
	if _, err := f.signer.Redeem(job, vpcPath, vpc, f.now); err != nil {
		t.Errorf("after one rotation: %v", err)
	}
	if f.signFor(t, f.job, vpcPath, f.now) == job {
		t.Error("the previous key signs")
	}
	// A stolen previous key is of no use for long.
	stolen := newSigned(t, auth.SignerConfig{})
	old, err := os.ReadFile(f.key())
	if err != nil {
		t.Fatal(err)
	}
	rotate()
	if _, err := f.signer.Redeem(job, vpcPath, vpc, f.now); err == nil {
		t.Error("good after two rotations")
	}
	if err := os.WriteFile(stolen.key(), old, 0o600); err != nil {
		t.Fatal(err)
	}
	thief := stolen.open(t, auth.SignerConfig{})
	for after, good := range map[time.Duration]bool{0: true, 24 * time.Hour: false} {
		now := f.now.Add(after)
		minted, err := thief.Sign(f.job, vpcPath, now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.signer.Redeem(minted, vpcPath, vpc, now); (err == nil) != good {
			t.Errorf("minted with the previous key %v after: %v", after, err)
		}
	}
}

func TestKeyMisused(t *testing.T) {
	f := newSigned(t, auth.SignerConfig{})
	segment := f.sign(t)
	content, err := os.ReadFile(f.key())
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := os.ReadFile(filepath.Join(f.dir, "tokens.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"cut": content[:len(content)/2], "empty": {}, "of tokens": tokens} {
		if err := os.WriteFile(f.key(), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		f.now = f.now.Add(time.Second)
		if _, err := f.signer.Redeem(segment, vpcPath, vpc, f.now); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := f.signer.Sign(f.token, vpcPath, f.now); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := auth.OpenSigner(t.Context(), f.key(), auth.SignerConfig{}); err == nil {
			t.Errorf("%s: opened", name)
		}
		if err := auth.RotateKey(t.Context(), f.key(), f.now); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("%s: rotated: %v", name, err)
		}
		if err := f.signer.Check(); !errors.Is(err, modproxy.ErrUnavailable) || !strings.Contains(err.Error(), f.key()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile(f.key(), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f.key(), 0o604); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.OpenSigner(t.Context(), f.key(), auth.SignerConfig{}); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("everybody may read the key: %v", err)
	}
}

func TestOpenSignerMakesOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.json")
	segments := make([]string, 8)
	var all sync.WaitGroup
	now := time.Now()
	for i := range segments {
		all.Go(func() {
			s, err := auth.OpenSigner(t.Context(), path, auth.SignerConfig{Life: 24 * time.Hour})
			if err != nil {
				t.Error(err)
				return
			}
			segments[i], err = s.Sign(auth.Principal{Kind: auth.ByIssuer, ID: auth.IDOf("a")}, vpcPath, now)
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, s := range segments {
		if s != segments[0] {
			t.Error("two keys")
		}
	}
	for _, life := range []time.Duration{-time.Hour, time.Second, 8 * 24 * time.Hour, time.Minute + 1} {
		if _, err := auth.OpenSigner(t.Context(), path, auth.SignerConfig{Life: life}); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("life %v: %v", life, err)
		}
	}
}

// TestSegmentEndsWithItsRules: paths of jobs end when the rules for jobs change.
func TestSegmentEndsWithItsRules(t *testing.T) {
	f := newSigned(t, auth.SignerConfig{Rules: "old"})
	job, token := f.signFor(t, f.job, vpcPath, f.now), f.sign(t)
	changed := f.open(t, auth.SignerConfig{Rules: "new", Tokens: f.tokens})
	if _, err := changed.Redeem(job, vpcPath, vpc, f.now); !errors.Is(err, modproxy.ErrUnauthorized) {
		t.Error(err)
	}
	if _, err := changed.Redeem(token, vpcPath, vpc, f.now); err != nil {
		t.Error(err)
	}
}

// FuzzRedeem: a segment is valid only for its path, and no other segment is valid.
func FuzzRedeem(f *testing.F) {
	s := newSigned(f, auth.SignerConfig{})
	token, job := s.sign(f), s.signFor(f, s.job, vpcPath, s.now)
	f.Add(token, vpcPath)
	f.Add(job, otherPath)
	f.Add("s_"+strings.Repeat("A", 72), "")
	f.Add("s_.._-", "//")
	f.Fuzz(func(t *testing.T, segment, path string) {
		p, err := s.signer.Redeem(segment, path, vpc, s.now)
		if (err == nil) != (path == vpcPath && (segment == token || segment == job)) {
			t.Fatalf("%q %q: %v, %v", segment, path, p, err)
		}
		for _, p := range []auth.Principal{s.token, s.job} {
			made := s.signFor(t, p, path, s.now)
			cut, rest := auth.CutSegment("/" + made + "/" + path)
			if again, err := s.signer.Redeem(cut, path, vpc, s.now); err != nil || again.ID != p.ID || rest != "/"+path {
				t.Fatalf("%q: %v, %v", path, again, err)
			}
		}
		if cut, rest := auth.CutSegment(path); cut != "" && "/"+cut+rest != path || cut == "" && rest != path {
			t.Fatalf("%q: %q, %q", path, cut, rest)
		}
	})
}

// FuzzFiles: a damaged file of tokens or keys has no effect but an error.
func FuzzFiles(f *testing.F) {
	s := newSigned(f, auth.SignerConfig{})
	for _, path := range []string{filepath.Join(s.dir, "tokens.json"), s.key()} {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
		f.Add(content[:len(content)-3])
	}
	path := filepath.Join(f.TempDir(), "file")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if tokens, err := auth.OpenTokens(path); err == nil {
			if _, err := tokens.List(); err != nil {
				t.Fatal(err)
			}
		}
		if signer, err := auth.OpenSigner(t.Context(), path, auth.SignerConfig{}); err == nil {
			if _, err := signer.Sign(s.job, vpcPath, s.now); err != nil {
				t.Fatal(err)
			}
		}
	})
}
