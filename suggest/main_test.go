package suggest_test

import (
	"os"
	"testing"

	"github.com/modproxy/modproxy/tfconfig"
)

// TestMain makes this binary usable as the child of a Reader.
func TestMain(m *testing.M) {
	tfconfig.Child()
	os.Exit(m.Run())
}
