//go:build linux

package hostile_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// revocable is the time for which a revoked credential may still work.
const revocable = 5 * time.Second

// A questioner is a client that repeats one request.
type questioner struct {
	method, path, shown string
	last                time.Time // the beginning of the last successful request
	refused             int       // refusals since then
	back                bool      // a request succeeded after a refusal
	other               int       // answers that are neither success nor refusal
	had                 func()    // called at the first success, or at the end
}

// untilRefused repeats the request until enough refusals, or until over is closed.
func (q *questioner) untilRefused(p *proxy, over <-chan struct{}) {
	for q.refused < 5 {
		select {
		case <-over:
			return
		case <-time.After(25 * time.Millisecond):
		}
		asked := time.Now()
		switch a := p.ask(q.method, q.path, "Authorization", q.shown); {
		case a.Status < 300:
			q.back = q.back || q.refused > 0
			q.last, q.refused = asked, 0
			if q.had != nil {
				q.had()
			}
		case a.Status == http.StatusUnauthorized:
			q.refused++
		default:
			q.other = a.Status
		}
	}
}

// crowdOf returns many clients with a token, or with the path that was signed for it.
func crowdOf(t *testing.T, p *proxy, many int, shown string) []*questioner {
	segment, path := p.signed(t, shown, private, "1.0.0")
	var crowd []*questioner
	for len(crowd) < many {
		crowd = append(crowd,
			&questioner{method: http.MethodGet, path: private.path("versions"), shown: shown},
			&questioner{method: http.MethodGet, path: private.path("1.0.0/download"), shown: shown},
			&questioner{method: http.MethodGet, path: path, shown: shown},
			&questioner{method: http.MethodGet, path: "/" + segment + path},
			&questioner{method: http.MethodHead, path: "/" + segment + path},
		)
	}
	return crowd
}

// ends lets a crowd repeat requests until they are refused. It calls end after each client has succeeded once. It returns the time from the
// result of end to the last success.
func ends(t *testing.T, p *proxy, crowd []*questioner, end func() time.Time) time.Duration {
	t.Helper()
	over := make(chan struct{})
	tooLong := time.AfterFunc(2*time.Minute, func() { close(over) })
	var group, had sync.WaitGroup
	for _, q := range crowd {
		had.Add(1)
		q.had = sync.OnceFunc(had.Done)
		group.Go(func() {
			defer q.had()
			q.untilRefused(p, over)
		})
	}
	had.Wait()
	ended := end()
	if tooLong.Stop() {
		tooLong.Reset(time.Until(ended) + 2*time.Minute)
	}
	group.Wait()
	tooLong.Stop()
	last := slices.MaxFunc(crowd, func(a, b *questioner) int { return a.last.Compare(b.last) }).last
	for _, q := range crowd {
		switch {
		case q.last.IsZero():
			t.Errorf("%s %.80s never succeeded: the case shows nothing", q.method, q.path)
		case q.refused == 0:
			t.Errorf("%s %.80s is not refused", q.method, q.path)
		case q.back:
			t.Errorf("%s %.80s succeeded after it had been refused", q.method, q.path)
		case q.other != 0:
			t.Errorf("%s %.80s: %d", q.method, q.path, q.other)
		}
	}
	return last.Sub(ended)
}

// A revoked or expired token is useless for every client, and so are the paths that were signed for it. Tokens of others keep working.
func TestRevocationCounts(t *testing.T) {
	p := startOwn(t, asking)
	p.mustInstall(private, "1.0.0")
	many := 50
	if shorter(t, "25 clients instead of 50") {
		many = 25
	}
	bystander := p.token("bystander", "--scope", "corp.test/corp")
	var succeed time.Duration // time in which a crowd succeeds
	p.run("revoked", func(t *testing.T) {
		ci := p.token("ci", "--scope", "corp.test/corp")
		over, began := make(chan struct{}), time.Now()
		others := crowdOf(t, p, 5, bystander)
		var group sync.WaitGroup
		for _, q := range others {
			group.Go(func() { q.untilRefused(p, over) })
		}
		took := ends(t, p, crowdOf(t, p, many, ci), func() time.Time {
			succeed = time.Since(began)
			p.verb("token", "revoke", "ci")
			return time.Now()
		})
		close(over)
		group.Wait()
		t.Logf("the last of %d clients succeeded %v after the token was revoked", many, took)
		if rig.Late(took, revocable+2*time.Second) {
			t.Errorf("a client succeeded %v after the token was revoked", took)
		}
		for _, q := range others {
			if q.refused > 0 || q.other != 0 || q.last.IsZero() {
				t.Errorf("a bystander was refused: %s %s %d", q.method, q.path, q.other)
			}
		}
		again := p.token("ci", "--scope", "corp.test/corp")
		if a := p.ask(http.MethodGet, private.path("versions"), "Authorization", again); a.Status != http.StatusOK {
			t.Errorf("another token of the same name: %d", a.Status)
		}
		if a := p.ask(http.MethodGet, private.path("versions"), "Authorization", ci); a.Status != http.StatusUnauthorized {
			t.Errorf("the revoked one, when there is another of the same name: %d", a.Status)
		}
	})
	p.run("expired", func(t *testing.T) {
		life := max(4*time.Second, 10*succeed).Round(time.Second)
		made := time.Now()
		brief := p.token("brief", "--scope", "corp.test/corp", "--expires", life.String())
		late := time.Since(made) // the token was made before, at an unknown time
		took := ends(t, p, crowdOf(t, p, many, brief), func() time.Time { return made.Add(life) })
		t.Logf("the last of %d clients succeeded %v after the token expired, or %v less", many, took, late)
		if rig.Late(took, late+time.Second) {
			t.Errorf("a client succeeded %v after the token expired", took)
		}
	})
	p.run("key", func(t *testing.T) {
		segment, path := p.signed(t, bystander, private, "1.0.0")
		crowd := []*questioner{{method: http.MethodGet, path: "/" + segment + path}}
		took := ends(t, p, crowd, func() time.Time {
			p.verb("key", "rotate")
			p.verb("key", "rotate")
			return time.Now()
		})
		if rig.Late(took, revocable+2*time.Second) {
			t.Errorf("a path was good %v after its key was replaced twice", took)
		}
	})
}
