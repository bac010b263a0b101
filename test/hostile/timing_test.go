//go:build linux

package hostile_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// Refusals do not differ in their timing where they do not differ in their text.
func TestTimeTellsNothing(t *testing.T) {
	p := startOwn(t, asking)
	p.mustInstall(private, "1.0.0")
	ours := p.token("ours", "--scope", "corp.test/corp")
	others := p.token("others", "--scope", "up-a.test/good")
	rounds := 2000
	few := shorter(t, "60 probes of each kind instead of 2000, and no comparison of times")
	if few {
		rounds = 60
	}
	absent := module{private.host, private.namespace, "absent", private.system}
	secret := strings.Repeat("q", 52)
	almost := ours[:len(ours)-2] + secret[:2]
	if almost == ours {
		almost = ours[:len(ours)-2] + "aq"
	}
	segment, path := p.signed(t, ours, private, "1.0.0")
	for name, pair := range map[string][2]probe{
		"tokens": {
			{private.path("versions"), "Bearer mp_" + strings.Repeat("a", 16) + "_" + secret, http.StatusUnauthorized},
			{private.path("versions"), ours[:len(ours)-52] + secret, http.StatusUnauthorized},
		},
		"tokens-almost-right": {
			{private.path("versions"), ours[:len(ours)-52] + secret, http.StatusUnauthorized},
			{private.path("versions"), almost, http.StatusUnauthorized},
		},
		"versions": {
			{private.path("versions"), others, http.StatusNotFound},
			{absent.path("versions"), others, http.StatusNotFound},
		},
		"download": {
			{private.path("1.0.0/download"), others, http.StatusNotFound},
			{absent.path("1.0.0/download"), others, http.StatusNotFound},
		},
		"package": {
			{private.archive("1.0.0"), others, http.StatusNotFound},
			{absent.archive("1.0.0"), others, http.StatusNotFound},
		},
		"forbidden-and-absent": {
			{private.path("versions"), others, http.StatusNotFound},
			{module{"up-a.test", "good", "absent", "aws"}.path("versions"), others, http.StatusNotFound},
		},
		"segments": {
			{"/" + segment[:len(segment)-4] + "AAAA" + path, "", http.StatusUnauthorized},
			{"/" + segment[:8] + "AAAA" + segment[12:] + path, "", http.StatusUnauthorized},
		},
	} {
		p.run(name, func(t *testing.T) { compare(t, p, pair, rounds, !few && name != "forbidden-and-absent") })
	}
}

// A probe is a request that is refused.
type probe struct {
	path, shown string
	status      int
}

// compare sends two requests in turn over one connection, and compares the answers and their durations. A client that may read a module
// can see from a stored list whether it exists; modproxy does not look for a module that the client may not read. So only requests about
// equally unknown modules take equally long.
func compare(t *testing.T, p *proxy, pair [2]probe, rounds int, timed bool) {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	var took [2][]time.Duration
	var first rig.Answer
	for n := range rounds * 2 {
		which := (n + n/2) % 2 // each request follows itself as often as the other
		a, err := pair[which].send(p, client)
		if err != nil {
			t.Fatal(err)
		}
		if a.Status != pair[which].status {
			t.Fatalf("%d: %s", a.Status, a.Said())
		}
		if n == 0 {
			first = a
		}
		if face(a) != face(first) {
			alike(t, pair[which].path, a, first)
			return
		}
		if n >= 20 {
			took[which] = append(took[which], a.Took)
		}
	}
	x, y := median(took[0]), median(took[1])
	apart := 100 * float64(max(x, y)-min(x, y)) / float64(min(x, y))
	t.Logf("medians of %d probes: %v and %v, %.1f%% apart", rounds, x, y, apart)
	if timed && apart > 25 {
		t.Errorf("medians of %d probes: %v and %v, %.1f%% apart; want less than 5%%, and on a busy machine 25%%", rounds, x, y, apart)
	}
}

func (q probe) send(p *proxy, client *http.Client) (rig.Answer, error) {
	r, err := rig.NewRequest(context.Background(), http.MethodGet, p.url+q.path)
	if err != nil {
		return rig.Answer{}, err
	}
	if q.shown != "" {
		r.Header.Set("Authorization", q.shown)
	}
	p.count(1)
	a := rig.Do(client, r)
	return a, a.Err
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}
