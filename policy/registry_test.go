package policy_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

// refusalOf returns the refusal in err. The test fails if err is not a refusal.
func refusalOf(t testing.TB, err error) *policy.Refusal {
	t.Helper()
	var refusal *policy.Refusal
	if !errors.As(err, &refusal) || !errors.Is(err, modproxy.ErrDenied) {
		t.Fatalf("%v is no refusal", err)
	}
	return refusal
}

// Requests for refused modules do not reach Next.
func TestRefusedIsNotAsked(t *testing.T) {
	f := newFixture(compile(t, policy.Config{Contact: "#platform", Rules: []policy.Rule{rule(t, 1, "deny "+all)}}))
	_, err := f.Versions(t.Context(), vpc)
	equal(t, "versions", err.Error(), "versions registry.example.com/acme/vpc/aws: denied by the policy of this proxy: "+
		"a rule denies it (p:1 denies registry.example.com/acme/vpc/aws); ask #platform")
	refusalOf(t, err)
	_, err = f.Location(t.Context(), vpc.At("1.0.0"))
	equal(t, "location", refusalOf(t, err).Version, "1.0.0")
	_, err = f.Package(t.Context(), vpc.At("1.0.0"))
	equal(t, "package", refusalOf(t, err).Outcome, policy.Denied)
	equal(t, "asked of next", len(f.next.count), 0)
	var ops []string
	for _, e := range f.events {
		ops = append(ops, e.Op)
	}
	equal(t, "observed", strings.Join(ops, " "), "versions location package")
}

// One version is refused, and the others are not.
func TestRefusedVersion(t *testing.T) {
	f := newFixture(rules(t, "allow "+all, "deny "+all+" 2.0.0"))
	equal(t, "listed", f.versions(t.Context()), "1.0.0 1.1.0")
	equal(t, "hidden", f.events[0].Hidden, 1)
	equal(t, "the newest", f.events[0].Refusal.Version, "2.0.0")
	_, err := f.Location(t.Context(), vpc.At("2.0.0"))
	refusalOf(t, err)
	_, err = f.Package(t.Context(), vpc.At("2.0.0"))
	refusalOf(t, err)
	equal(t, "locations", f.next.count["location"], 0)
	equal(t, "packages", f.next.count["package"], 0)
	if l, err := f.Location(t.Context(), vpc.At("1.0.0")); err != nil || l.URL != "https://files.example.com/1.0.0" {
		t.Errorf("%v, %v", l, err)
	}
	p, err := f.Package(t.Context(), vpc.At("1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(p)
	equal(t, "content", string(content), "content of the package")
	equal(t, "error", errors.Join(err, p.Close()), nil)
	equal(t, "closed", f.next.closed, 1)
	equal(t, "events", len(f.events), 3)
}

// A list without an allowed version is a refusal, about its newest version.
func TestNothingIsAllowed(t *testing.T) {
	f := newFixture(rules(t, "allow "+all+" > 9", "allow approval "+all+" 1.1.0"))
	for range 2 {
		_, err := f.Versions(t.Context(), vpc)
		refusal := refusalOf(t, err)
		equal(t, "about", refusal.Ref.String(), vpc.At("2.0.0").String())
		equal(t, "outcome", refusal.Outcome, policy.NotAllowed)
		last := f.events[len(f.events)-1]
		equal(t, "hidden", last.Hidden, 3)
		equal(t, "the newest that waits", last.Waits.Ref, vpc.At("1.1.0"))
	}
	f.Location(t.Context(), vpc.At("1.1.0"))
	equal(t, "waits", f.events[2].Waits, f.events[2].Refusal)
	f.Location(t.Context(), vpc.At("1.0.0"))
	equal(t, "does not wait", f.events[3].Waits, nil)
}

// A client sees the versions that its groups may use, and not those of other groups.
func TestListsOfGroups(t *testing.T) {
	f := newFixture(rules(t, "allow group=old "+all+" < 2", "allow group=new "+all+" >= 2"))
	for range 2 {
		for groups, want := range map[string]string{"old": "1.0.0 1.1.0", "new": "2.0.0", "old new": "1.0.0 1.1.0 2.0.0"} {
			ctx := modproxy.WithClient(t.Context(), modproxy.Client{Name: "c", Groups: strings.Fields(groups)})
			equal(t, groups, f.versions(ctx), want)
		}
	}
	_, err := f.Versions(t.Context(), vpc)
	equal(t, "of nobody", refusalOf(t, err).Outcome, policy.NotAllowed)
}

// Audit mode refuses nothing.
func TestAudit(t *testing.T) {
	f := newFixture(compile(t, policy.Config{Audit: true, Rules: []policy.Rule{rule(t, 1, "deny "+all+" >= 1.1")}}))
	ctx := modproxy.WithClient(t.Context(), modproxy.Client{Name: "ci"})
	equal(t, "listed", f.versions(ctx), "1.0.0 1.1.0 2.0.0")
	if _, err := f.Location(ctx, vpc.At("2.0.0")); err != nil {
		t.Error(err)
	}
	p, err := f.Package(ctx, vpc.At("2.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	f.book.decide(modproxy.Block, "2.0.0")
	f.Gate.Follow(ctx)
	if _, err := io.ReadAll(p); err != nil {
		t.Error(err)
	}
	want := []policy.Event{{Op: "versions", Hidden: 2}, {Op: "location"}, {Op: "package"}, {Op: "package"}}
	equal(t, "events", len(f.events), len(want))
	for i, e := range f.events {
		if !e.Audit || e.Client.Name != "ci" || e.Refusal.Version != "2.0.0" || e.Op != want[i].Op || e.Hidden != want[i].Hidden {
			t.Errorf("%+v, want %+v", e, want[i])
		}
	}
	verdict, err := f.Gate.Decide(ctx, vpc.At("1.1.0"))
	if err != nil || verdict.Outcome != policy.Denied {
		t.Errorf("the verdict itself is %s, %v", verdict.Outcome, err)
	}
}

// If a package is blocked while it is read, reading stops before its end.
func TestBlockedWhileRead(t *testing.T) {
	for name, begins := range map[string]*policy.Rules{"with rules": rules(t, "allow "+all), "without": nil} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(begins)
			p, err := f.Package(t.Context(), vpc.At("1.0.0"))
			if err != nil {
				t.Fatal(err)
			}
			piece := make([]byte, 4)
			if n, err := p.Read(piece); n != 4 || err != nil {
				t.Errorf("%s: %d, %v", name, n, err)
			}
			f.book.decide(modproxy.Block, "2.0.0")
			time.Sleep(2 * time.Second)
			if n, err := p.Read(piece); n != 4 || err != nil {
				t.Errorf("%s: when another is blocked: %d, %v", name, n, err)
			}
			f.book.decide(modproxy.Block, "1.0.0")
			time.Sleep(1100 * time.Millisecond)
			for range 2 {
				n, err := p.Read(piece)
				equal(t, name+": outcome", refusalOf(t, err).Outcome, policy.Blocked)
				equal(t, name+": bytes", n, 0)
			}
			if err := p.Close(); err != nil || f.next.closed != 1 {
				t.Errorf("%s: close: %v, %d", name, err, f.next.closed)
			}
		})
	}
}

// A package that is refused while Next downloads it is not opened.
func TestBlockedWhileFetched(t *testing.T) {
	f := newFixture(rules(t, "allow "+all))
	f.next.opened = func() {
		f.book.decide(modproxy.Block, "")
		f.Gate.Follow(t.Context())
	}
	_, err := f.Package(t.Context(), vpc.At("1.0.0"))
	equal(t, "outcome", refusalOf(t, err).Outcome, policy.Blocked)
	equal(t, "closed", f.next.closed, 1)
}

// A locked package with other content is refused once the content is known, and closed.
func TestLockedPackage(t *testing.T) {
	lock := policy.Rule{Place: "lock", Locked: []policy.Locked{{vpc.At("1.0.0"), right}}}
	for _, test := range []struct {
		sum  modproxy.Sum
		want policy.Outcome
	}{{right, policy.Allowed}, {other, policy.NotLocked}} {
		f := newFixture(compile(t, policy.Config{DefaultDeny: true, Rules: []policy.Rule{lock}}))
		f.next.sum = test.sum
		f.next.opened = func() { f.book.record(vpc.At("1.0.0"), test.sum) } // as the layer of the ledger does
		p, err := f.Package(t.Context(), vpc.At("1.0.0"))
		if test.want == policy.Allowed {
			if err != nil {
				t.Fatal(err)
			}
			p.Close()
			continue
		}
		equal(t, "outcome", refusalOf(t, err).Outcome, test.want)
		equal(t, "closed", f.next.closed, 1)
		_, err = f.Location(t.Context(), vpc.At("1.0.0"))
		equal(t, "afterwards", refusalOf(t, err).Outcome, test.want)
	}
}

// The allowed part of a document is remembered. Its age and origin are not.
func TestListIsRemembered(t *testing.T) {
	f := newFixture(rules(t, "allow "+all, "deny "+all+" 2.0.0"))
	first, err := f.Versions(t.Context(), vpc)
	if err != nil || first.Hit || first.Stale || !first.Time.Equal(day) {
		t.Fatalf("%+v, %v", first, err)
	}
	f.next.hit, f.next.stale = true, true
	second, err := f.Versions(t.Context(), vpc)
	if err != nil || !second.Hit || !second.Stale || first.Hit || first.Stale {
		t.Fatalf("%+v, %v", second, err)
	}
	equal(t, "asked of next", f.next.count["versions"], 2)
	equal(t, "entity tag", second.ETag, first.ETag)
	if &first.Document[0] != &second.Document[0] || &first.Compressed[0] != &second.Compressed[0] {
		t.Error("the document was made twice")
	}
	f.next.listed = "1.0.0 1.1.0 1.2.0 2.0.0"
	equal(t, "another document", f.versions(t.Context()), "1.0.0 1.1.0 1.2.0")
	f.book.decide(modproxy.Block, "1.0.0")
	f.Gate.Follow(t.Context())
	equal(t, "after a block", f.versions(t.Context()), "1.1.0 1.2.0")
	f.Gate.Use(rules(t, "allow "+all))
	equal(t, "after other rules", f.versions(t.Context()), "1.1.0 1.2.0 2.0.0")
}

// If the whole list is allowed, the answer is the one of Next.
func TestWholeList(t *testing.T) {
	f := newFixture(rules(t, "allow "+all))
	f.next.hit = true
	v, err := f.Versions(t.Context(), vpc)
	whole, _ := document(f.next.listed)
	if err != nil || v.ETag != whole.ETag || !v.Hit {
		t.Errorf("%+v, %v", v, err)
	}
	equal(t, "events", len(f.events), 0)
}

// A version is listed as soon as it is old enough, within the time for which a list is remembered.
func TestListEndsWithAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(rules(t, "allow age=24h "+all))
		now := time.Now()
		f.Gate.FirstSeen = firstSeenTimes{vpc: {Module: now.Add(-time.Hour * 48), Versions: map[string]modproxy.VersionDates{
			"1.0.0": {}, "1.1.0": {}, "2.0.0": {Seen: now.Add(-24*time.Hour + 3*time.Second)},
		}}}
		equal(t, "now", f.versions(t.Context()), "1.0.0 1.1.0")
		time.Sleep(3*time.Second - 1)
		equal(t, "a tick before", f.versions(t.Context()), "1.0.0 1.1.0")
		time.Sleep(2 * time.Nanosecond)
		equal(t, "then", f.versions(t.Context()), "1.0.0 1.1.0 2.0.0")
	})
}

// In audit mode, unavailable facts refuse nothing.
func TestAuditWithoutFacts(t *testing.T) {
	f := newFixture(compile(t, policy.Config{DefaultDeny: true, Audit: true, Rules: []policy.Rule{rule(t, 1, "allow age=24h "+all)}}))
	f.Gate.FirstSeen = sightsFail{}
	if _, err := f.Versions(t.Context(), vpc); err != nil {
		t.Error(err)
	}
	if _, err := f.Location(t.Context(), vpc.At("1.0.0")); err != nil {
		t.Error(err)
	}
}

// In audit mode, a request for a refused module is one event.
func TestAuditObservesOnce(t *testing.T) {
	f := newFixture(compile(t, policy.Config{Audit: true, Rules: []policy.Rule{rule(t, 1, "deny "+all)}}))
	f.versions(t.Context())
	equal(t, "events", len(f.events), 1)
}

// The content of the served package counts, even without a record in the ledger.
func TestLockedPackageWithoutRecord(t *testing.T) {
	lock := policy.Rule{Place: "lock", Locked: []policy.Locked{{vpc.At("1.0.0"), right}}}
	f := newFixture(compile(t, policy.Config{DefaultDeny: true, Rules: []policy.Rule{lock}}))
	f.next.sum = other
	if _, err := f.Package(t.Context(), vpc.At("1.0.0")); err == nil {
		t.Error("a locked package with another sum is served")
	}
}

// A version is listed from the instant at which it is old enough.
func TestListEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(rules(t, "allow age=24h "+all))
		now := time.Now()
		f.Gate.FirstSeen = firstSeenTimes{vpc: {Module: now.Add(-48 * time.Hour), Versions: map[string]modproxy.VersionDates{
			"1.0.0": {}, "1.1.0": {}, "2.0.0": {Seen: now.Add(-24*time.Hour + 3*time.Second)}}}}
		f.versions(t.Context())
		time.Sleep(3 * time.Second)
		equal(t, "verdict", outcome(t, f.Gate, "2.0.0"), policy.Allowed)
		equal(t, "listed", f.versions(t.Context()), "1.0.0 1.1.0 2.0.0")
	})
}

// When an approval ends, Versions omits the version, and reading its package stops.
func TestApprovalEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(rules(t, "allow approval "+all))
		f.book.add(modproxy.Decision{Address: vpc, Action: modproxy.Approve, Time: day, Until: time.Now().Add(2 * time.Second)})
		equal(t, "approved", f.versions(t.Context()), "1.0.0 1.1.0 2.0.0")
		p, err := f.Package(t.Context(), vpc.At("1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		equal(t, "verdict", outcome(t, f.Gate, "1.0.0"), policy.Unapproved)
		if v, err := f.Versions(t.Context(), vpc); err == nil {
			t.Errorf("%s is listed", spellings(v))
		}
		if _, err := io.ReadAll(p); err == nil {
			t.Error("the package is read to its end")
		}
	})
}

// Clients of providers print warnings, and the reason of a denial is one.
func TestProvidersAreWarnedOf(t *testing.T) {
	f := newFixture(rules(t, "allow registry.example.com/acme/*", "deny registry.example.com/acme/toy 2.0.0"))
	v, err := f.Versions(t.Context(), modproxy.NewProvider(host, "acme", "toy"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "document", string(v.Document), `{"versions":[{"version":"1.0.0"},{"version":"1.1.0"}],"warnings":[`+
		`"registry.example.com/acme/toy 2.0.0 is not listed: denied by the policy of this proxy: a rule denies it `+
		`(p:2 denies registry.example.com/acme/toy 2.0.0); ask the operator of this proxy"]}`)
	_, err = f.Versions(t.Context(), vpc)
	equal(t, "a module", refusalOf(t, err).Outcome, policy.NotAllowed)
}

// With ListDenied, denied versions are listed, but a reserved namespace is not requested.
func TestListDenied(t *testing.T) {
	for _, c := range []struct {
		config policy.Config
		want   string // the first outcome
	}{
		{policy.Config{Rules: []policy.Rule{rule(t, 1, "deny "+all)}}, "denied"},
		{policy.Config{Rules: []policy.Rule{rule(t, 1, "deny "+all+" 1.1.0")}}, "denied"},
		{policy.Config{DefaultDeny: true}, "not_allowed"},
		{policy.Config{DefaultDeny: true, Rules: []policy.Rule{rule(t, 1, "allow approval "+all)}}, "unapproved"},
		{policy.Config{DefaultDeny: true, Rules: []policy.Rule{rule(t, 1, "allow age=24h "+all)}}, "too_young"},
	} {
		c.config.ListDenied = true
		f := newFixture(compile(t, c.config))
		f.Registry.ListDenied = true
		equal(t, "listed", f.versions(t.Context()), "1.0.0 1.1.0 2.0.0")
		equal(t, "observed for the list", len(f.events), 0)
		_, err := f.Location(t.Context(), vpc.At("1.1.0"))
		equal(t, "outcome", string(refusalOf(t, err).Outcome), c.want)
		equal(t, "observed", f.events[0].Refusal.Version, "1.1.0")
		if waits := f.events[0].Waits; (waits != nil) != (c.want == "unapproved") {
			t.Errorf("%s waits: %v", c.want, waits)
		}
		f.Registry.ListDenied = false // as for descriptions of modules
		if v, err := f.Versions(t.Context(), vpc); err == nil && len(v.List) == 3 {
			t.Errorf("%s: listed to others than those that install: %s", c.want, spellings(v))
		}
	}
	f := newFixture(compile(t, policy.Config{ListDenied: true, Reserved: []policy.Reserve{{Namespace: "acme"}}}))
	f.Registry.ListDenied = true
	_, err := f.Versions(t.Context(), vpc)
	equal(t, "reserved", refusalOf(t, err).Outcome, policy.Reserved)
	equal(t, "asked of next", len(f.next.count), 0)
}

// A warning names the versions of a provider that are denied for one reason, and says where there are more.
func TestWarningsNameVersions(t *testing.T) {
	f := newFixture(rules(t, "allow registry.example.com/acme/* > 0", "deny registry.example.com/acme/toy >= 2.0.0", "deny registry.example.com/acme/toy 1.0.0"))
	f.next.listed = "1.0.0 1.1.0 2.0.0"
	for i := range 10 {
		f.next.listed += fmt.Sprintf(" 3.%d.0", i)
	}
	toy := modproxy.NewProvider(host, "acme", "toy")
	for _, listed := range []bool{false, true} {
		f.Registry.ListDenied = listed
		c := f.Gate.Rules().Config
		c.ListDenied = listed
		f.Gate.Use(compile(t, c))
		v, err := f.Versions(t.Context(), toy)
		if err != nil {
			t.Fatal(err)
		}
		are := "not listed"
		if listed {
			are = "listed, but denied"
		}
		_, warnings, _ := strings.Cut(string(v.Document), `"warnings":`)
		equal(t, "warnings", warnings, `["registry.example.com/acme/toy 3.9.0, 3.8.0, 3.7.0, 3.6.0, 3.5.0, 3.4.0, 3.3.0, 3.2.0 and 3 more are `+are+
			`: denied by the policy of this proxy: a rule denies it (p:2 denies registry.example.com/acme/toy \u003e= 2.0.0); ask the operator of this proxy",`+
			`"registry.example.com/acme/toy 1.0.0 is `+are+`: denied by the policy of this proxy: a rule denies it (p:3 denies registry.example.com/acme/toy 1.0.0); ask the operator of this proxy"]}`)
		equal(t, "listed", len(v.List) > 1, listed)
	}
}
