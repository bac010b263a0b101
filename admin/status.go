package admin

import (
	"context"
	"time"

	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/policy"
)

// Status is the status of a serving proxy. Clients ignore unknown fields, which a newer proxy may send. An older proxy may not send all fields.
type Status struct {
	Version   string           `json:"version"`
	Time      time.Time        `json:"time"` // of this answer
	Started   time.Time        `json:"started"`
	URL       string           `json:"url"`
	Data      string           `json:"data"`
	Config    string           `json:"config,omitempty"` // the configuration file
	Offline   bool             `json:"offline,omitempty"`
	Ready     bool             `json:"ready"` // /-/readyz answers 200
	Problems  []StatusProblem  `json:"problems,omitempty"`
	Upstreams []UpstreamStatus `json:"upstreams"`
	Room      Room             `json:"room"`
	Downloads []Download       `json:"downloads"` // the oldest first
	Drift     int              `json:"drift"`     // number of versions whose source offered other content, which no operator has accepted
	Pending   int              `json:"pending"`   // number of versions that wait for approval
	Rules     RulesInForce     `json:"rules"`
}

// A StatusProblem is the reason why the proxy cannot do some or all of its work.
type StatusProblem struct {
	Problem string `json:"problem"`
	Error   string `json:"error,omitempty"`
}

// UpstreamState is the health of a registry, as the last requests to it show it.
type UpstreamState string

const (
	UpstreamUnknown     UpstreamState = "unknown"     // no request has ended since the start
	UpstreamAnswers     UpstreamState = "answers"     // the last requests were answered
	UpstreamFailing     UpstreamState = "failing"     // the last request failed
	UpstreamUnavailable UpstreamState = "unavailable" // requests failed, and few are sent until one succeeds
	UpstreamOffline     UpstreamState = "offline"     // the proxy is offline and sends no requests
)

// ForgeService is the service of the forges of own modules.
const ForgeService = "git"

// An UpstreamStatus is the health of a registry, of the forge of own modules, or of a part of it.
type UpstreamStatus struct {
	Host       string        `json:"host"`
	State      UpstreamState `json:"state"`
	Answered   time.Time     `json:"answered,omitzero"`    // time of the last answer
	Failed     time.Time     `json:"failed,omitzero"`      // time of the last failure
	Down       time.Time     `json:"down_since,omitzero"`  // time since which the registry is unavailable; zero otherwise
	Service    string        `json:"service,omitempty"`    // the failing service, such as modules.v1; for a forge always [ForgeService]
	Namespace  string        `json:"namespace,omitempty"`  // the failing namespace, if others do not fail
	Repository string        `json:"repository,omitempty"` // the path of the failing repository of a forge, if others do not fail
	Error      string        `json:"error,omitempty"`      // the error of the last request
}

// Room is the use of the store and its file system, in bytes.
type Room struct {
	Stored      int64 `json:"stored_bytes"`
	Reserved    int64 `json:"reserved_bytes,omitempty"` // for packages that are being written
	Max         int64 `json:"max_bytes"`                // cache.max_size; zero if packages have no bound
	Quarantined int64 `json:"quarantined_bytes,omitempty"`
	DiskFree    int64 `json:"disk_free_bytes,omitempty"`
	DiskFull    int   `json:"disk_full_percent,omitempty"` // zero also if the use of the file system is unknown
}

// A Download is a download that runs or waits for a slot.
type Download struct {
	versionname.Name
	Began time.Time `json:"began"`
}

// RulesInForce describes the policy.
type RulesInForce struct {
	Default   string `json:"default"` // allow or deny
	Mode      string `json:"mode"`    // enforce or audit
	Rules     int    `json:"rules"`
	Reserved  int    `json:"reserved"`  // namespaces
	Decisions int    `json:"decisions"` // of operators, in force
}

// status returns the status even if the ledger or the store cannot be read. The errors are then problems in the status.
func (s *Server) status(ctx context.Context, _ none, _ func(none)) (Status, error) {
	out := s.Process.Status(ctx)
	failed := func(what string, err error) {
		if err != nil {
			out.Problems = append(out.Problems, StatusProblem{what, err.Error()})
		}
	}
	_, err := s.drift(ctx, LedgerQuery{}, func(d Drift) {
		if d.Open {
			out.Drift++
		}
	})
	failed("drift cannot be counted", err)
	failed("versions that wait for approval cannot be counted", s.eachUnapproved(ctx, versionname.Name{},
		func(history.Request, policy.Verdict) error { out.Pending++; return nil }))
	rules := s.Gate.Rules()
	out.Rules = RulesInForce{Default: "allow", Mode: "enforce", Rules: len(rules.Rules)}
	if rules.DefaultDeny {
		out.Rules.Default = "deny"
	}
	if rules.Audit {
		out.Rules.Mode = "audit"
	}
	reserved := map[string]bool{} // a namespace with a route has several entries
	for _, r := range rules.Reserved {
		reserved[r.Namespace] = true
	}
	out.Rules.Reserved = len(reserved)
	_, err = s.decisions(ctx, versionname.Name{}, func(d Decision) {
		if d.InForce {
			out.Rules.Decisions++
		}
	})
	failed("decisions cannot be counted", err)
	return out, ctx.Err()
}
