package history_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/observe"
	"github.com/modproxy/modproxy/store/storetest"
)

// offline is a registry that has one version of vpc and nothing else.
type offline struct{ modproxy.Registry }

func (offline) Versions(_ context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	if m.Folded() != vpc {
		return nil, &modproxy.Error{Op: "versions", Ref: m.At(""), Err: &modproxy.NotCached{Ref: m.At("")}}
	}
	return modproxy.ParseVersions([]byte(`{"modules":[{"versions":[{"version":"1.0.0"}]}]}`))
}

func (offline) Location(_ context.Context, v modproxy.Ref) (modproxy.Location, error) {
	switch v.Folded() {
	case vpc.At("1.0.0"):
		return modproxy.Location{Kept: true}, nil
	case vpc.At("6.6.6"):
		return modproxy.Location{}, modproxy.ErrDenied
	}
	return modproxy.Location{}, &modproxy.Error{Op: "location", Ref: v, Err: &modproxy.NotCached{Ref: v}}
}

func (offline) Package(_ context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return nil, &modproxy.NotCached{Ref: v, Lost: true}
}

// Only missing content is recorded, with the client.
func TestMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := history.NewDemand(new(storetest.Memory).Records(), history.MissingKind, nil)
		r := &observe.Registry{Next: offline{}, Observers: []observe.Observer{history.NewMisses(log)}}
		ctx := modproxy.WithClient(t.Context(), asker("a"))
		other := vpc
		other.Name = "Other"
		_, err := r.Versions(ctx, other)
		if !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("versions: %v", err)
		}
		for _, version := range []string{"1.0.0", "2.0.0", "6.6.6"} {
			r.Location(ctx, vpc.At(version))
		}
		r.Package(ctx, vpc.At("2.0.0"))
		write(t, log)
		got := ""
		for _, q := range requested(t, log) {
			got += fmt.Sprintf("%s %d %v; ", q.Ref, q.Count, q.Askers)
		}
		equal(t, "missed", got, "registry.example.com/acme/Other/aws 1 [a]; registry.example.com/acme/vpc/aws 2.0.0 2 [a]; ")
	})
}

// A client that receives versions and requests none has missed a version. A client that requests one, or cannot receive one,
// has not.
func TestNoneTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := history.NewDemand(new(storetest.Memory).Records(), history.MissingKind, nil)
		r := &observe.Registry{Next: offline{}, Observers: []observe.Observer{history.NewMisses(log)}}
		odd := vpc
		odd.Name = "VPC"
		for name, takes := range map[string]modproxy.Ref{"takes": odd.At("1.0.0"), "refused": vpc.At("6.6.6"), "none": {}, "none again": {}} {
			ctx := modproxy.WithClient(t.Context(), asker(name))
			for range 3 {
				if _, err := r.Versions(ctx, vpc); err != nil {
					t.Fatal(err)
				}
			}
			if takes.Version != "" {
				r.Location(ctx, takes)
			}
		}
		write(t, log)
		equal(t, "at once", len(requested(t, log)), 0)
		time.Sleep(4 * time.Second)
		write(t, log)
		list := requested(t, log)
		v, _ := r.Next.Versions(t.Context(), vpc)
		if len(list) != 1 || list[0].Ref != vpc.At("") || list[0].Count != 2 || len(list[0].Askers) != 2 || list[0].Refused != v.ETag {
			t.Errorf("missed: %+v", list)
		}

		// The number of recorded choices is limited for any number of clients.
		for i := range 4096 + 100 {
			r.Versions(modproxy.WithClient(t.Context(), asker(fmt.Sprint(i))), vpc)
		}
		time.Sleep(4 * time.Second)
		write(t, log)
		equal(t, "of many", requested(t, log)[0].Count, 2+4096)
	})
}

// Clear removes the requests for a version, a module or all modules.
func TestClear(t *testing.T) {
	var m storetest.Memory
	l := history.NewDemand(m.Records(), history.MissingKind, nil)
	waits := history.NewDemand(m.Records(), history.PendingKind, nil)
	other := vpc
	other.Name = "other"
	for _, v := range []modproxy.Ref{vpc.At(""), vpc.At("1.0.0"), vpc.At("2.0.0"), other.At(""), other.At("1.0.0")} {
		l.Add(v, asker("a"))
	}
	waits.Add(vpc.At("1.0.0"), asker("a"))
	write(t, waits)
	odd := vpc
	odd.Name = "VPC"
	for _, c := range []struct {
		v    modproxy.Ref
		n    int
		left int
	}{{odd.At("1.0.0+b"), 0, 5}, {odd.At("1.0.0"), 1, 4}, {odd.At(""), 2, 2}, {odd.At(""), 0, 2}, {modproxy.Ref{}, 2, 0}} {
		n, err := l.Clear(t.Context(), c.v)
		if err != nil || n != c.n || len(requested(t, l)) != c.left {
			t.Errorf("cleared %s: %d, %v; %d are left", c.v, n, err, len(requested(t, l)))
		}
	}
	equal(t, "of another kind", len(requested(t, waits)), 1)
}
