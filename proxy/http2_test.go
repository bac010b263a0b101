package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// client speaks HTTP/2 over one of p's connections.
func (p pipes) client(t *testing.T) *http.Client {
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols:          &only,
		HTTP2:              &http.HTTP2Config{MaxReceiveBufferPerStream: 16 << 10},
		DisableCompression: true,
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return p.dial(), nil },
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// The streams of an HTTP/2 connection are each cut off by themselves.
func TestSlowReaderOfHTTP2(t *testing.T) {
	for _, path := range []string{base + "/versions", archive} {
		synctest.Test(t, func(t *testing.T) {
			p, log := serve(t)
			c := p.client(t)
			slow, err := c.Get("http://proxy.test" + path)
			if err != nil || slow.StatusCode != http.StatusOK || slow.ProtoMajor != 2 {
				t.Fatal(slow, err)
			}
			defer slow.Body.Close()
			// Another one goes on beside it, slowly but for as long as it takes.
			steady, err := c.Get("http://proxy.test" + path)
			if err != nil {
				t.Fatal(err)
			}
			defer steady.Body.Close()
			var got int64
			for err == nil {
				time.Sleep(5 * time.Second)
				var n int64
				n, err = io.CopyN(io.Discard, steady.Body, 16<<10)
				got += n
			}
			if err != io.EOF || got != 1<<20 {
				t.Errorf("%s: %d bytes: %v", path, got, err)
			}
			if n, err := io.Copy(io.Discard, slow.Body); err == nil {
				t.Errorf("%s: all of it was there: %d bytes", path, n)
			}
			synctest.Wait()
			if !strings.Contains(log.String(), `"level":"warn"`) || !strings.Contains(log.String(), "too slowly") {
				t.Errorf("%s: the log is %s", path, log)
			}
		})
	}
}
