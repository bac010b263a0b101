package ledgertest_test

import (
	"testing"

	"github.com/modproxy/modproxy/ledger/ledgertest"
)

func TestMemory(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T, n int) []ledgertest.Handle {
		l := ledgertest.NewMemory()
		handles := make([]ledgertest.Handle, n)
		for i := range handles {
			handles[i] = l
		}
		return handles
	})
}
