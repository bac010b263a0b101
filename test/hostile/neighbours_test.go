//go:build linux

package hostile_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// A client that requests missing names as fast as it can gets at most its share of the requests to a registry. Clients at other addresses
// get theirs.
func TestAFloodLeavesOthersTheirShare(t *testing.T) {
	p := startOwn(t, ordinary)
	length := 20 * time.Second
	if shorter(t, "a flood of 2s instead of 20s") {
		length = 2 * time.Second
	}
	host := (&registry{versions: func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(20 * time.Millisecond)
		io.WriteString(w, `{"modules":[{"versions":[{"version":"1.0.0"}]}]}`)
	}}).host(t)
	p.run("flood", func(t *testing.T) {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
		flooding := &http.Client{Transport: &http.Transport{DialContext: from.DialContext, MaxConnsPerHost: 400, MaxIdleConnsPerHost: 400}}
		var over atomic.Bool
		var sent, failed, asked atomic.Int64
		var group sync.WaitGroup
		n := 0 // requests for the modules of other clients
		for i := range 400 {
			group.Go(func() {
				for k := 0; !over.Load(); k++ {
					p.count(1)
					res, err := flooding.Get(p.url + module{host, "absent", fmt.Sprintf("m%d-%d", i, k), "aws"}.path("versions"))
					if err == nil {
						io.Copy(io.Discard, res.Body)
						res.Body.Close()
						sent.Add(1)
					}
				}
			})
		}
		time.Sleep(time.Second)
		fair := func() bool {
			asked.Store(0)
			failed.Store(0)
			var others sync.WaitGroup
			for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				n++
				m := module{host, "good", fmt.Sprintf("m%d", n), "aws"}
				asked.Add(1)
				others.Go(func() {
					if a := p.asClient(m.path("versions")); a.Status != http.StatusOK {
						failed.Add(1)
					}
				})
			}
			others.Wait()
			return failed.Load()*50 <= asked.Load()
		}
		well := fair() || !rig.Long() && eventually(fair) // a busy machine answers late, which clients take for an error
		over.Store(true)
		group.Wait()
		flooding.CloseIdleConnections()
		t.Logf("%d requests of the flood; %d of %d others failed", sent.Load(), failed.Load(), asked.Load())
		if !well {
			t.Errorf("%d of %d requests failed", failed.Load(), asked.Load())
		}
	})
}
