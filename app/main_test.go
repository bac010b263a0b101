package app

import (
	"testing"

	"github.com/modproxy/modproxy/closure"
)

// TestMain makes this binary what reads configurations, as the program is.
func TestMain(m *testing.M) {
	closure.Child()
	m.Run()
}
