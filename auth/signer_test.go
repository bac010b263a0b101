package auth_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/hostname"
)

var (
	vpc   = module("corp", "acme")
	other = module("corp", "other")
)

const (
	vpcPath   = "/corp~/v1/modules/acme/vpc/aws/1.0.0/vpc-aws-1.0.0.tar.gz"
	newerPath = "/corp~/v1/modules/acme/vpc/aws/1.0.1/vpc-aws-1.0.1.tar.gz"
	otherPath = "/corp~/v1/modules/other/vpc/aws/1.0.0/vpc-aws-1.0.0.tar.gz"
)

// slew is the maximum difference between the wall clock and the monotonic clock in a test.
const slew = time.Millisecond

// signed is a signer, a token, and a moment in the middle of a period.
type signed struct {
	dir    string
	tokens *auth.Tokens
	signer *auth.Signer
	text   string
	token  auth.Principal
	job    auth.Principal
	now    time.Time
}

func newSigned(t testing.TB, cfg auth.SignerConfig) *signed {
	t.Helper()
	f := &signed{dir: t.TempDir()}
	f.tokens = open(t, filepath.Join(f.dir, "tokens.json"))
	cfg.Tokens = f.tokens
	f.signer = f.open(t, cfg)
	now := time.Now()
	f.now = now.Add(now.Truncate(time.Hour).Add(90 * time.Minute).Sub(now))
	var err error
	f.text, _ = create(t, f.tokens, auth.Token{Name: "ci", Scopes: acme, Admin: true, Refresh: true, Expires: f.now.Add(60 * time.Minute)})
	if f.token, err = f.tokens.Verify(f.text, f.now); err != nil {
		t.Fatal(err)
	}
	if f.job, err = (issuer{text: "a.b.c"}).Verify(t.Context(), "a.b.c", f.now); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *signed) key() string { return filepath.Join(f.dir, "key.json") }

func (f *signed) open(t testing.TB, cfg auth.SignerConfig) *auth.Signer {
	t.Helper()
	s, err := auth.OpenSigner(t.Context(), f.key(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *signed) sign(t testing.TB) string { return f.signFor(t, f.token, vpcPath, f.now) }

func (f *signed) signFor(t testing.TB, p auth.Principal, path string, now time.Time) string {
	t.Helper()
	segment, err := f.signer.Sign(p, path, now)
	if err != nil {
		t.Fatal(err)
	}
	return segment
}

func TestSegmentIsNoHostAndNoRoute(t *testing.T) {
	f := newSigned(t, auth.SignerConfig{})
	path, err := f.signer.Path(f.token, vpcPath, f.now)
	if err != nil || !regexp.MustCompile(`^/s_[A-Za-z0-9_-]{72}/corp~/v1/modules/`).MatchString(path) {
		t.Fatal(path, err)
	}
	segment, rest := auth.CutSegment(path)
	if segment != f.sign(t) || rest != vpcPath {
		t.Error(segment, rest)
	}
	if h, err := hostname.Parse(segment); err == nil {
		t.Errorf("the segment is the host %q", h)
	}
	token := "mp_" + strings.Repeat("a", 16) + "_" + strings.Repeat("b", 52)
	for path, want := range map[string]string{
		path: "/s_[redacted]" + vpcPath, vpcPath: vpcPath, "/s_x/a": "/s_[redacted]/a", "/as_x/b": "/as_x/b",
		"/" + segment + path:                "/s_[redacted]/s_[redacted]" + vpcPath,
		"/prefix" + path:                    "/prefix/s_[redacted]" + vpcPath,
		"/x/http:" + segment[:60] + vpcPath: "/x/http:s_[redacted]" + vpcPath,
		"/" + token + "/a":                  "/mp_[redacted]/a",
		`version "` + token + `"`:           `version "mp_[redacted]"`,
		`version "` + token[:24] + `"`:      `version "mp_[redacted]"`,
		"/eyJh.eyJp.s/a":                    "/eyJ[redacted]/a",
		"/EYJH.EYJP.S/a":                    "/EYJ[redacted]/a",
		"/EyJh.eYJp.s/a":                    "/EyJ[redacted]/a",
		"/mp_modules/s_3/eyJ.b/a":           "/mp_modules/s_3/eyJ.b/a",
	} {
		if got := auth.Redact(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for path, want := range map[string]string{"": "", "/": "", vpcPath: "", "s_x/a": "", "/s_": "s_", "/s_x": "s_x", "//s_x": "", "/s_/": "s_"} {
		segment, rest := auth.CutSegment(path)
		if segment != want || segment == "" && rest != path || segment != "" && "/"+segment+rest != path {
			t.Errorf("%q: %q, %q", path, segment, rest)
		}
	}
}

// TestSegmentIsStable: within a period a client receives the same path, which stays valid for at least one more whole period.
func TestSegmentIsStable(t *testing.T) {
	f := newSigned(t, auth.SignerConfig{})
	first := f.sign(t)
	for _, c := range []struct {
		p     auth.Principal
		path  string
		after time.Duration
		same  bool
	}{
		{f.token, vpcPath, 29 * time.Minute, true},
		{f.token, vpcPath, -30*time.Minute + slew, true},
		{f.token, vpcPath, 30*time.Minute + slew, false},
		{f.token, newerPath, 0, false},
		{f.job, vpcPath, 0, false},
	} {
		if same := f.signFor(t, c.p, c.path, f.now.Add(c.after)) == first; same != c.same {
			t.Errorf("%v %s after %v: same %v", c.p, c.path, c.after, same)
		}
	}
	for _, p := range []auth.Principal{{}, {Kind: 77, ID: f.token.ID}, {Kind: auth.ByToken, ID: "x"}, {Kind: auth.Nobody, ID: f.token.ID}} {
		if segment, err := f.signer.Sign(p, vpcPath, f.now); !errors.Is(err, modproxy.ErrUnauthorized) || segment != "" {
			t.Errorf("signed for %v: %q, %v", p, segment, err)
		}
	}
}

func TestRedeem(t *testing.T) {
	f := newSigned(t, auth.SignerConfig{})
	segment := f.sign(t)
	job := f.signFor(t, f.job, vpcPath, f.now)
	p, err := f.signer.Redeem(segment, vpcPath, vpc, f.now)
	if err != nil || p.ID != f.token.ID || p.Kind != auth.ByToken || p.Admin || p.Refresh || !p.MayRead(vpc) {
		t.Fatalf("%+v, %v", p, err)
	}
	if p, err := f.signer.Redeem(job, vpcPath, vpc, f.now); err != nil || p.ID != f.job.ID || p.Kind != auth.ByIssuer || !p.MayRead(vpc) || p.MayRead(other) {
		t.Fatalf("%+v, %v", p, err)
	}
	for name, c := range map[string]struct {
		segment, path string
		m             modproxy.Address
		after         time.Duration
		want          error
		why           string
	}{
		"another version":    {segment, newerPath, vpc, 0, modproxy.ErrUnauthorized, "not signed"},
		"another module":     {segment, otherPath, other, 0, modproxy.ErrUnauthorized, "not signed"},
		"a job's elsewhere":  {job, newerPath, vpc, 0, modproxy.ErrUnauthorized, "not signed"},
		"the path, and more": {segment, vpcPath + "/", vpc, 0, modproxy.ErrUnauthorized, "not signed"},
		"no path":            {segment, "", vpc, 0, modproxy.ErrUnauthorized, "not signed"},
		"not covered":        {segment, vpcPath, other, 0, modproxy.ErrNotFound, ""},
		"token expired":      {segment, vpcPath, vpc, time.Hour, modproxy.ErrUnauthorized, "token ci"},
		"last second":        {job, vpcPath, vpc, 90*time.Minute - time.Second, nil, ""},
		"expired":            {job, vpcPath, vpc, 90*time.Minute + slew, modproxy.ErrUnauthorized, "expired"},
		"a year later":       {job, vpcPath, vpc, 365 * 24 * time.Hour, modproxy.ErrUnauthorized, "expired"},
		"a year earlier":     {job, vpcPath, vpc, -365 * 24 * time.Hour, modproxy.ErrUnauthorized, "future"},
		"empty":              {"", vpcPath, vpc, 0, modproxy.ErrUnauthorized, "form"},
		"nothing in it":      {"s_", vpcPath, vpc, 0, modproxy.ErrUnauthorized, "form"},
		"padded":             {segment + "=", vpcPath, vpc, 0, modproxy.ErrUnauthorized, "form"},
		"cut":                {segment[:len(segment)-1], vpcPath, vpc, 0, modproxy.ErrUnauthorized, "form"},
		"zeros":              {"s_" + strings.Repeat("A", 72), vpcPath, vpc, 0, modproxy.ErrUnauthorized, "form"},
	} {
		p, err := f.signer.Redeem(c.segment, c.path, c.m, f.now.Add(c.after))
		if !errors.Is(err, c.want) || (c.want != modproxy.ErrUnauthorized) != (p.Kind != auth.Nobody) || !strings.Contains(why(err), c.why) {
			t.Errorf("%s: %v, %v (%s)", name, p, err, why(err))
		}
	}
}

// TestSegmentHasGroups: a path that was signed for a job has the job's groups, and tampering cannot add or remove any.
func TestSegmentHasGroups(t *testing.T) {
	var all []string
	for i := range 20 {
		all = append(all, fmt.Sprint("group", i))
	}
	f := newSigned(t, auth.SignerConfig{Rules: "rules", Groups: all})
	for _, groups := range [][]string{nil, {"group0"}, {"group7", "group8"}, {"group19"}, all} {
		f.job.Groups = groups
		segment := f.signFor(t, f.job, vpcPath, f.now)
		got, err := f.signer.Redeem(segment, vpcPath, vpc, f.now)
		if err != nil || !slices.Equal(got.Groups, groups) {
			t.Errorf("%q: groups %q, %v", groups, got.Groups, err)
		}
		if seg, _ := auth.CutSegment("/" + segment + vpcPath); seg != segment {
			t.Errorf("%q: it is cut as %q", groups, seg)
		}
		raw, err := auth.SegmentCoding.DecodeString(segment[2:])
		if err != nil {
			t.Fatal(err)
		}
		more := append(slices.Clone(raw), 0xff)
		last := slices.Clone(raw)
		last[len(last)-1] ^= 1
		for _, bad := range [][]byte{more, last, raw[:len(raw)-1], raw[:auth.SegmentParts[len(auth.SegmentParts)-1]]} {
			if p, err := f.signer.Redeem("s_"+base64.RawURLEncoding.EncodeToString(bad), vpcPath, vpc, f.now); !errors.Is(err, modproxy.ErrUnauthorized) {
				t.Errorf("%q: another segment is good for groups %q, %v", groups, p.Groups, err)
			}
		}
	}
	f.token.Groups = all // tokens have no groups
	if got, err := f.signer.Redeem(f.sign(t), vpcPath, vpc, f.now); err != nil || got.Groups != nil {
		t.Errorf("a token is in %q, %v", got.Groups, err)
	}
}

// TestTamperedSegment: a changed byte in any part of a segment makes it invalid: version, kind, expiry, principal or MAC.
func TestTamperedSegment(t *testing.T) {
	f := newSigned(t, auth.SignerConfig{})
	for _, p := range []auth.Principal{f.token, f.job} {
		segment := f.signFor(t, p, vpcPath, f.now)
		raw, err := auth.SegmentCoding.DecodeString(segment[2:])
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range auth.SegmentParts[:len(auth.SegmentParts)-1] {
			for _, bit := range []byte{1, 3, 0x80} {
				bad := append([]byte(nil), raw...)
				bad[at] ^= bit
				if _, err := f.signer.Redeem("s_"+base64.RawURLEncoding.EncodeToString(bad), vpcPath, vpc, f.now); !errors.Is(err, modproxy.ErrUnauthorized) {
					t.Errorf("byte %d: %v", at, err)
				}
			}
		}
	}
}

func TestSegmentEndsWithItsToken(t *testing.T) {
	f := newSigned(t, auth.SignerConfig{})
	segment := f.sign(t)
	if _, err := open(t, filepath.Join(f.dir, "tokens.json")).Revoke(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.signer.Redeem(segment, vpcPath, vpc, f.now.Add(time.Second)); !strings.Contains(why(err), "revoked") {
		t.Error(err)
	}
	job := auth.Principal{Kind: auth.ByIssuer, ID: f.token.ID} // has the token's id, but does not end with the token
	if _, err := f.signer.Redeem(f.signFor(t, job, vpcPath, f.now), vpcPath, vpc, f.now); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(f.dir, "tokens.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.signer.Redeem(segment, vpcPath, vpc, f.now.Add(2*time.Second)); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Error(err)
	}
}

func TestSegmentOutlastsATurnedClock(t *testing.T) {
	f := newSigned(t, auth.SignerConfig{})
	job := f.signFor(t, f.job, vpcPath, f.now)
	later := f.now.Add(2 * time.Hour) // by the monotonic clock; the wall clock is turned back by a day
	f.signer.TurnBack(24 * time.Hour)
	segment := f.signFor(t, f.job, vpcPath, f.now) // valid for 90 minutes, not for a day
	if _, err := f.signer.Redeem(segment, vpcPath, vpc, f.now.Add(time.Hour)); err != nil {
		t.Errorf("not good for its life: %v", err)
	}
	if _, err := f.signer.Redeem(segment, vpcPath, vpc, later); !strings.Contains(why(err), "expired") {
		t.Errorf("good for longer than its life: %v", err)
	}
	f.signer.TurnBack(-24 * time.Hour)
	if _, err := f.signer.Redeem(segment, vpcPath, vpc, f.now); !strings.Contains(why(err), "future") {
		t.Errorf("signed under another clock: %v", err)
	}
	if _, err := f.signer.Redeem(job, vpcPath, vpc, f.now); err != nil {
		t.Error(err)
	}
}
