package app

import (
	"testing"

	"github.com/modproxy/modproxy/tfconfig"
)

// TestMain makes this binary what reads configurations, as the program is.
func TestMain(m *testing.M) {
	tfconfig.Child()
	m.Run()
}
