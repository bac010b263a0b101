package admin_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/policy"
)

// deciding returns a server with a gate that follows the decisions in its ledger.
func deciding(t *testing.T) *admin.Server {
	book := ledgertest.Open(t, t.TempDir())
	return &admin.Server{Ledger: book, Gate: policy.NewGate(book, nil)}
}

func decide(t *testing.T, c *admin.Client, action modproxy.Action, versions, reason string) (admin.DecisionResult, error) {
	t.Helper()
	in := admin.DecisionRequest{Module: vpc.String(), Action: action, Versions: versions, Reason: reason, User: "alice", Force: true}
	return admin.DecisionsMake.Call(t.Context(), c, in, nil)
}

// decisions returns the listed decisions, one text for each.
func decisions(t *testing.T, c *admin.Client, module string) (list []string) {
	t.Helper()
	_, err := admin.DecisionsList.Call(t.Context(), c, versionname.Name{Module: module}, func(d admin.Decision) error {
		text := strings.Join([]string{d.Name.Module, string(d.Action), d.Versions, d.By}, " ")
		if d.InForce {
			text += " in force"
		}
		list = append(list, text)
		return nil
	})
	must(t, err)
	return list
}

// TestDecide: a decision is in force when the answer arrives. It is recorded with the canonical spelling of its versions, and
// listed.
func TestDecide(t *testing.T) {
	for name, client := range map[string]func(*testing.T, *admin.Server) *admin.Client{
		"inside": func(_ *testing.T, s *admin.Server) *admin.Client { return admin.Inside(s) }, "outside": outside,
	} {
		t.Run(name, func(t *testing.T) {
			s := deciding(t)
			c := client(t, s)
			outcome := func(v string) policy.Outcome {
				verdict, err := s.Gate.Decide(t.Context(), vpc.At(v))
				must(t, err)
				return verdict.Outcome
			}
			if got := outcome("1.3.0"); got != policy.Allowed {
				t.Error(got)
			}
			out, err := decide(t, c, modproxy.Block, "<1.4", "a bucket")
			must(t, err)
			if out.Versions != "< 1.4.0" || out.By != "operator alice" || out.Known || !out.InForce || time.Since(out.Time) > time.Minute {
				t.Errorf("%+v", out)
			}
			if got := outcome("1.3.0"); got != policy.Blocked {
				t.Error(got)
			}
			if again, err := decide(t, c, modproxy.Block, " < v1.4.0", "a bucket"); err != nil || !again.Known || !again.Time.Equal(out.Time) {
				t.Errorf("%+v, %v", again, err)
			}
			_, err = decide(t, c, modproxy.Block, "< 1.4.0", "another reason")
			must(t, err)
			_, err = decide(t, c, modproxy.Unblock, "1.3.0", "")
			if want := vpc.String() + ` 1.3.0 is not blocked; ` + vpc.String() + ` (< 1.4.0) is: "modproxy unblock ` + vpc.String() + ` '< 1.4.0'" ends that`; err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			_, err = decide(t, c, modproxy.Unblock, "<1.4.0", "")
			must(t, err)
			if got := outcome("1.3.0"); got != policy.Allowed {
				t.Error(got)
			}
			if _, err = decide(t, c, modproxy.Unblock, "<1.4.0", ""); err == nil || !strings.HasSuffix(err.Error(), "(< 1.4.0) is not blocked") {
				t.Error(err)
			}
			_, err = decide(t, c, modproxy.Block, "", "all")
			must(t, err)
			want := []string{
				vpc.String() + " block < 1.4.0 operator alice", vpc.String() + " block < 1.4.0 operator alice",
				vpc.String() + " unblock < 1.4.0 operator alice", vpc.String() + " block  operator alice in force",
			}
			if got := decisions(t, c, "Registry.Example.com/Acme/VPC/aws"); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if got := decisions(t, c, "registry.example.com/acme/other/aws"); len(got) > 0 {
				t.Error(got)
			}
		})
	}
}

// TestDecideRefuses: an invalid decision is an error, and is not recorded.
func TestDecideRefuses(t *testing.T) {
	s := deciding(t)
	for want, in := range map[string]admin.DecisionRequest{
		"not an address":                   {Module: "acme/vpc", Action: modproxy.Block},
		`version constraint "latest"`:      {Module: vpc.String(), Action: modproxy.Block, Versions: "latest"},
		`decision "allow"`:                 {Module: vpc.String(), Action: "allow"},
		"reason: want one line":            {Module: vpc.String(), Action: modproxy.Block, Reason: "two\nlines"},
		"name of the operator":             {Module: vpc.String(), Action: modproxy.Block, User: "al\nice"},
		"link: want an https URL":          {Module: vpc.String(), Action: modproxy.Deprecate, Reason: "old", Link: "http://example.com"},
		"only an approval can have an end": {Module: vpc.String(), Action: modproxy.Block, Until: time.Now().Add(time.Hour)},
		"that is in the past":              {Module: vpc.String(), Action: modproxy.Approve, Until: time.Now().Add(-time.Second)},
		"1.0.0 is not deprecated":          {Module: vpc.String(), Action: modproxy.Deprecate, Versions: "1.0.0"},
		"every version of " + vpc.Host:     {Module: vpc.String(), Action: modproxy.Unblock},
	} {
		for _, c := range []*admin.Client{admin.Inside(s), outside(t, s)} {
			if _, err := admin.DecisionsMake.Call(t.Context(), c, in, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	if n := s.Ledger.Tree().N; n > 0 {
		t.Errorf("%d entries", n)
	}
}

// ops implements [admin.Operators] for one token.
type ops struct{ decided []modproxy.Decision }

func (*ops) Operator(context.Context) string { return "token ops (5f0c)" }

func (*ops) MayRead(context.Context, modproxy.Address) error { return nil }

func (*ops) MayRefresh(context.Context, modproxy.Address) error { return nil }

func (o *ops) Decided(d modproxy.Decision) { o.decided = append(o.decided, d) }

func (*ops) Imported(admin.BundleHead, []bundle.Item) {}

// TestDecideByToken: a decision names the token of its caller, not the user in the request. Each decision is reported once.
func TestDecideByToken(t *testing.T) {
	s, o := deciding(t), &ops{}
	s.Operators = o
	for range 2 {
		out, err := decide(t, admin.Inside(s), modproxy.Block, "", "all")
		if err != nil || out.By != "token ops (5f0c)" {
			t.Errorf("%q, %v", out.By, err)
		}
	}
	if len(o.decided) != 1 || o.decided[0].Address != vpc || o.decided[0].Action != modproxy.Block || o.decided[0].By != "token ops (5f0c)" {
		t.Errorf("told of %+v", o.decided)
	}
}

// TestImportDecisions: imported decisions are in force immediately.
func TestImportDecisions(t *testing.T) {
	from, to := deciding(t), deciding(t)
	_, err := decide(t, admin.Inside(from), modproxy.Block, "", "all")
	must(t, err)
	var export strings.Builder
	must(t, from.Ledger.Export(&export))
	if verdict, err := to.Gate.Decide(t.Context(), vpc.At("1.0.0")); err != nil || verdict.Refused() {
		t.Fatal(verdict, err)
	}
	in := admin.LedgerImportRequest{Keys: []string{from.Ledger.VerifierKey()}, From: strings.NewReader(export.String())}
	if n, err := admin.LedgerImport.Call(t.Context(), admin.Inside(to), in, nil); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if verdict, err := to.Gate.Decide(t.Context(), vpc.At("1.0.0")); err != nil || verdict.Outcome != policy.Blocked {
		t.Error(verdict, err)
	}
}
