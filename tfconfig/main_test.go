package tfconfig_test

import (
	"os"
	"testing"

	"github.com/modproxy/modproxy/tfconfig"
)

// TestMain makes this binary what Readers start, like the program.
func TestMain(m *testing.M) {
	tfconfig.Child()
	os.Exit(m.Run())
}
