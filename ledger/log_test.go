package ledger_test

import (
	"os"
	"testing"

	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

// mustOpen opens a log that never flushes: only a power cut would show the difference.
func mustOpen(t testing.TB, dir string) *ledger.Log {
	t.Helper()
	l, err := ledger.OpenSync(dir, func(*os.File) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLog(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T, n int) []ledgertest.Handle {
		l := mustOpen(t, t.TempDir())
		handles := make([]ledgertest.Handle, n)
		for i := range handles {
			handles[i] = l
		}
		return handles
	})
}
