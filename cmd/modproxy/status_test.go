package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/versionname"
)

// A busy proxy fits one screen: lists are cut, and upstreams with trouble come first.
func TestStatusIsOneScreen(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := admin.Status{
		Version: "v1.2.3", Time: now, Started: now.Add(-50 * time.Hour), URL: "https://modules.example.com", Data: "/var/lib/modproxy", Offline: true,
		Problems: []admin.StatusProblem{{Problem: "nothing new is stored", Error: "the disk is full"}},
		Room:     admin.Room{Stored: 12 << 30, Max: 50 << 30, Reserved: 1 << 20, Quarantined: 1 << 30, DiskFree: 40 << 30, DiskFull: 81},
		Drift:    1, Pending: 2, Rules: admin.RulesInForce{Default: "deny", Mode: "audit", Rules: 12, Reserved: 1, Decisions: 3},
	}
	for i := range 20 {
		s.Upstreams = append(s.Upstreams, admin.UpstreamStatus{Host: fmt.Sprintf("registry%d.example", i), State: admin.UpstreamAnswers, Answered: now.Add(-12 * time.Second)})
		s.Downloads = append(s.Downloads, admin.Download{Name: versionname.Name{Module: "registry.example/acme/network/aws", Version: fmt.Sprintf("1.%d.0", i)}, Began: now.Add(-time.Minute)})
	}
	s.Upstreams[18] = admin.UpstreamStatus{Host: "failing.example", State: admin.UpstreamFailing, Failed: now.Add(-90 * time.Second), Service: "modules.v1", Namespace: "acme", Error: "it answered 502 Bad Gateway"}
	s.Upstreams[19] = admin.UpstreamStatus{Host: "down.example", State: admin.UpstreamUnavailable, Down: now.Add(-2 * time.Hour), Service: "providers.v1", Error: "connection refused by 192.0.2.1:443"}
	s.Upstreams[17] = admin.UpstreamStatus{Host: "git.example", State: admin.UpstreamFailing, Failed: now.Add(-time.Minute), Service: "git", Repository: "a/b.git", Error: "refused"}
	text := statusText(s)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > 24 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > helpWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{
		"modproxy   v1.2.3 at https://modules.example.com for 2d\n",
		"state      not ready, offline\nproblem    nothing new is stored: the disk is full\n",
		"upstreams  down.example: unavailable for 2h: providers.v1: connection refused by\n           192.0.2.1:443\n" +
			"           git.example (git): failing, last 1m ago: repository a/b.git: refused\n" +
			"           failing.example: failing, last 1m30s ago: modules.v1 of namespace\n           acme: it answered 502 Bad Gateway\n" +
			"           registry0.example: answers, last 12s ago\n",
		"           and 14 more, see --json\nroom       12.0GiB of 50.0GiB stored, 1.0GiB in quarantine; disk 81 % full,\n           40.0GiB free\n",
		"downloads  20\n           registry.example/acme/network/aws 1.0.0 for 1m\n",
		"           and 16 more, see --json\n",
		"drift      1 version: \"modproxy ledger drift\"\npending    2 versions: \"modproxy pending\"\n",
		"policy     default deny, mode audit, 12 rules, 1 reserved, 3 decisions\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it has no\n%s\nin\n%s", want, text)
		}
	}
}
