package app

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestServerLog: at most maxServerLog failed handshakes a minute are logged. The next entry has the number of the others.
func TestServerLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, seen := observer.New(zap.InfoLevel)
		s := &serverLog{log: zap.New(core)}
		for minute, want := range []int{maxServerLog, maxServerLog, 2} {
			n := 100
			if minute == 2 {
				n = 2
			}
			for i := range n {
				fmt.Fprintf(s, "http: TLS handshake error from 192.0.2.1:%d: EOF\n", i)
			}
			all := seen.TakeAll()
			if len(all) != want {
				t.Fatalf("minute %d: %d entries; want %d", minute, len(all), want)
			}
			first := all[0].ContextMap()
			if first["error"] != "http: TLS handshake error from 192.0.2.1:0: EOF" || minute > 0 && first["others"] != int64(100-maxServerLog) {
				t.Errorf("minute %d: %v", minute, first)
			}
			time.Sleep(serverLogEvery)
		}
	})
}
