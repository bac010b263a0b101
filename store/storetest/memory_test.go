package storetest_test

import (
	"testing"

	"github.com/modproxy/modproxy/store/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T, n int) []storetest.Handle {
		var m storetest.Memory
		handles := make([]storetest.Handle, n)
		for i := range handles {
			handles[i] = m.Handle()
		}
		return handles
	})
}
