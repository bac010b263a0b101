package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

// A segment of a glob has at most 300 bytes.
func TestGlobs(t *testing.T) {
	for host, valid := range map[string]bool{"*": true, strings.Repeat("a", 300): true, strings.Repeat("a", 301): false, "A": false, "a**": false, "": false} {
		d := modproxy.Decision{
			Address: modproxy.Address{Host: host, Namespace: "*", Name: "vpc", System: "aws"},
			Action:  modproxy.Block, By: "token security", Time: time.Unix(1e9, 0), Reason: "a bucket that everybody can read",
		}
		if _, err := ledger.FormatDecision(d); (err == nil) != valid || err != nil && !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("host %.20q with %d bytes: error %v; want a valid one: %v", host, len(host), err, valid)
		}
	}
}
