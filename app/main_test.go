package app

import (
	"testing"

	"github.com/modproxy/modproxy/tfconfig"
)

// TestMain lets this test binary be the child process that reads configurations.
func TestMain(m *testing.M) {
	tfconfig.Child()
	m.Run()
}
