package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/modproxy/modproxy/internal/datadir"
)

// A child that a process was starting when it was killed holds the lock and the socket a moment longer, and answers nothing. A verb works
// without it.
func TestVerbsOfKilledServer(t *testing.T) {
	for name, verb := range map[string][]string{"ls": {"ls"}, "verify": {"verify", "--read-data"}} {
		data := filepath.Join(t.TempDir(), "data")
		claim, err := datadir.NewClaim(data)
		if err != nil {
			t.Fatal(err)
		}
		socket, err := claim.Listen()
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, func() {
			claim.Close()
			socket.Close()
		})
		if got := command(t, nil, append(verb, "--data", data)...); got.code != exitDone {
			t.Errorf("%s: exit code %d: %s", name, got.code, got.stderr)
		}
	}
}
