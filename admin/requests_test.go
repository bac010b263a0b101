package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

// TestRequestsAreStrict: invalid requests are errors, and change nothing.
func TestRequestsAreStrict(t *testing.T) {
	book := ledgertest.Open(t, t.TempDir())
	must(t, book.Add(t.Context(), ledgertest.NewRecord(vpc, "1.0.0", "a")))
	h := byOwner(handler(&admin.Server{Ledger: book}, nil))
	module := vpc.String()
	for what, test := range map[string]struct {
		method, path, body string
		status             int
	}{
		"a module that is none":  {"GET", "ledger/records?module=vpc", "", 400},
		"a version that is none": {"GET", "ledger/records?version=one", "", 400},
		"a time that is none":    {"GET", "ledger/drift?since=yesterday", "", 400},
		"no JSON":                {"POST", "ledger/accept", "accept", 400},
		"an unknown field":       {"POST", "ledger/accept", `{"module": "` + module + `", "version": "1.0.0", "sum": "` + string(ledgertest.Sum("b")) + `", "raeson": "x"}`, 400},
		"no record":              {"POST", "ledger/accept", `{"module": "` + module + `", "version": "9.0.0", "sum": "` + string(ledgertest.Sum("b")) + `", "reason": "x"}`, 404},
		"no module":              {"POST", "ledger/accept", `{"version": "1.0.0", "sum": "` + string(ledgertest.Sum("b")) + `", "reason": "x"}`, 400},
		"no version":             {"POST", "ledger/accept", `{"module": "` + module + `", "sum": "` + string(ledgertest.Sum("b")) + `", "reason": "x"}`, 400},
		"no reason":              {"POST", "ledger/accept", `{"module": "` + module + `", "version": "1.0.0", "sum": "` + string(ledgertest.Sum("b")) + `"}`, 400},
		"nothing to remove":      {"POST", "packages/remove", `{}`, 400},
		"an unknown parameter":   {"GET", "ledger/records?modul=" + module, "", 400},
		"too much":               {"POST", "ledger/accept", `{"reason": "` + strings.Repeat("x", 100<<10) + `"}`, 400},
		"a pattern that is none": {"GET", "packages?pattern=acme", "", 400},
		"a size below nothing":   {"POST", "packages/tidy", `{"max_size": -1}`, 400},
		"no export":              {"POST", "ledger/import", "export", 400},
		"a key that is none":     {"POST", "ledger/import?key=secret", "", 400},
		"another method":         {"DELETE", "ledger/key", "", 405},
		"another path":           {"GET", "ledger", "", 404},
		"no mirror offline":      {"POST", "mirror", `{}`, 502},
		"a client that is none":  {"POST", "mirror/check", `{"starts": [{"client": "cdk", "file": "", "line": 0, "name": ""}]}`, 400},
		"no refreshing offline":  {"POST", "modules/refresh", `{"modules": ["` + module + `"]}`, 502},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(deadlines{w}, httptest.NewRequest(test.method, "/-/api/"+test.path, strings.NewReader(test.body)))
		if w.Code != test.status {
			t.Errorf("%s: %d %s, want %d", what, w.Code, w.Body, test.status)
		}
	}
	if n := book.Tree().N; n != 1 {
		t.Errorf("the ledger has %d records now", n)
	}
}

// deadlines is a recorder that accepts read deadlines, as a connection does.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetReadDeadline(time.Time) error { return nil }

// upstreams implements [admin.Upstreams] with one registry.
type upstreams struct{}

func (upstreams) HasUpstream(host string) bool { return host == vpc.Host }
func (upstreams) UpstreamHosts() []string      { return []string{vpc.Host} }

// versions is a cache that refreshes every module except one.
type versions struct {
	admin.Cache
	end context.CancelFunc // called by Refresh
}

func (v versions) Refresh(ctx context.Context, m modproxy.Address) (cache.Refreshed, error) {
	if m.Name == "broken" {
		return cache.Refreshed{}, fmt.Errorf("%w: no answer", modproxy.ErrUnavailable)
	}
	if v.end != nil {
		v.end()
		<-ctx.Done()
		return cache.Refreshed{}, ctx.Err()
	}
	return cache.Refreshed{Versions: 3, New: []string{"1.2.0"}, Gone: []string{"1.0.0"}, Kept: []string{"1.0.0"}}, nil
}

func TestRefresh(t *testing.T) {
	for where, client := range map[string]func(*testing.T, *admin.Server) *admin.Client{
		"inside":  func(_ *testing.T, s *admin.Server) *admin.Client { return admin.Inside(s) },
		"outside": outside,
	} {
		t.Run(where, func(t *testing.T) { testRefresh(t, client) })
	}
}

func testRefresh(t *testing.T, client func(*testing.T, *admin.Server) *admin.Client) {
	refresh := func(ctx context.Context, c *admin.Client, in admin.RefreshRequest, each func(admin.RefreshResult) error) error {
		_, err := admin.ModulesRefresh.Call(ctx, c, in, each)
		return err
	}
	server := deciding(t)
	server.Cache, server.Upstreams = versions{}, upstreams{}
	c := client(t, server)
	var answers []string
	blocked := vpc
	blocked.Name = "blocked"
	_, err := admin.DecisionsMake.Call(t.Context(), c, admin.DecisionRequest{Module: blocked.String(), Action: modproxy.Block, Reason: "a bucket", Force: true}, nil)
	must(t, err)
	in := admin.RefreshRequest{Modules: []string{vpc.String(), vpc.Host + "/acme/broken/aws", blocked.String(), "other.example/acme/vpc/aws"}}
	must(t, refresh(t.Context(), c, in, func(m admin.RefreshResult) error {
		why, _, _ := strings.Cut(m.Error, " on 2") // the time of the decision follows
		answers = append(answers, fmt.Sprintf("%s %d %q %q %q %s", m.Module, m.Versions, m.New, m.Gone, m.Kept, why))
		return nil
	}))
	want := []string{
		vpc.String() + ` 3 ["1.2.0"] ["1.0.0"] ["1.0.0"] `,
		vpc.Host + "/acme/broken/aws 0 [] [] [] unavailable: no answer",
		blocked.String() + " 0 [] [] [] denied by the policy of this proxy: blocked",
		"other.example/acme/vpc/aws 0 [] [] [] other.example/acme/vpc/aws: other.example is not among upstreams",
	}
	if strings.Join(answers, "\n") != strings.Join(want, "\n") {
		t.Errorf("answers %q, want %q", answers, want)
	}
	stop := errors.New("stop")
	if err := refresh(t.Context(), c, in, func(admin.RefreshResult) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("after an error of the caller: %v", err)
	}
	if err := refresh(t.Context(), c, admin.RefreshRequest{Modules: []string{"vpc"}}, nil); err == nil {
		t.Error("what is no module was asked for")
	}
	ctx, cancel := context.WithCancel(t.Context())
	server.Cache = versions{end: cancel}
	c = client(t, server)
	if err := refresh(ctx, c, admin.RefreshRequest{Modules: []string{vpc.String()}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestAnswersThatAreCut: an answer without a last line is an error.
func TestAnswersThatAreCut(t *testing.T) {
	for what, answer := range map[string]string{
		"nothing":            "",
		"a line":             `{"item": {"module": "a"}}` + "\n",
		"the half of a line": `{"item": {"module":`,
	} {
		c := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Modproxy-Api", "1")
			io.WriteString(w, answer)
		}))
		_, err := admin.ModulesRefresh.Call(t.Context(), c, admin.RefreshRequest{}, func(admin.RefreshResult) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "the answer was cut off") {
			t.Errorf("%s: %v", what, err)
		}
	}
	c := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Modproxy-Api", "1")
		fmt.Fprintf(w, "{\"item\": %q}\n", strings.Repeat("eHh4", 16<<10))
		panic(http.ErrAbortHandler)
	}))
	if n, err := admin.LedgerExport.Call(t.Context(), c, struct{}{}, func([]byte) error { return nil }); err == nil {
		t.Errorf("an export that was cut off has %d records", n)
	}
}
