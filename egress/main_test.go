package egress_test

import (
	"io"
	"log"
	"os"
	"testing"
)

var quiet = log.New(io.Discard, "", 0)

func TestMain(m *testing.M) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"} {
		os.Unsetenv(name)
	}
	os.Exit(m.Run())
}
