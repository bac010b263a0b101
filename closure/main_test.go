package closure_test

import (
	"os"
	"testing"

	"github.com/modproxy/modproxy/closure"
)

// TestMain makes this binary what Readers start, like the program.
func TestMain(m *testing.M) {
	closure.Child()
	os.Exit(m.Run())
}
