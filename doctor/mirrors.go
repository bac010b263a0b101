package doctor

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
)

func hasMirrors(c *config.Config) bool { return len(c.Sources) > 0 }

// mirrors reports hosts of mirrors of forges that cannot be reached. Any answer over HTTP counts. For a mirror over ssh, only its name is
// looked up.
func (e *examination) mirrors(ctx context.Context) (found []Finding) {
	network, _ := e.network()
	if network == nil {
		return nil
	}
	hosts := map[string]*url.URL{}
	for _, m := range e.Config.Mirrors() {
		u := m.URL()
		u.Path = "/"
		hosts[u.Scheme+" "+u.Host] = u
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, u := range hosts {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			if p := network.Proxy(u); u.Scheme != "ssh" && p != nil && e.proxyFailed(ctx, p) != nil {
				return // the proxy has a finding
			}
			if err := answers(ctx, network, u); err != nil {
				mu.Lock()
				defer mu.Unlock()
				found = append(found, finding("source_unreachable", u.Host, "%v%s", err, clockText(err)))
			}
		})
	}
	all.Wait()
	slices.SortFunc(found, func(a, b Finding) int { return cmp.Compare(a.Subject, b.Subject) })
	return found
}

// answers returns an error if the server at u cannot be reached.
func answers(ctx context.Context, network *egress.Client, u *url.URL) error {
	if u.Scheme == "ssh" {
		port, _ := strconv.Atoi(cmp.Or(u.Port(), "22")) // ParseMirror has checked it
		_, err := network.Resolve(ctx, u.Hostname(), port)
		return err
	}
	res, err := network.Get(ctx, egress.Request{URL: u.String(), NoHedging: true})
	if err != nil {
		return err
	}
	return res.Body.Close()
}
