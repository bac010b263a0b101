package modproxy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

func TestFault(t *testing.T) {
	var list []int
	for name, broken := range map[string]func(){
		"string": func() { panic("SECRET") },
		"error":  func() { panic(errors.New("SECRET")) },
		"index":  func() { list[len(list)]++ },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				err := modproxy.Fault(recover())
				if !errors.Is(err, modproxy.ErrUnavailable) || strings.Contains(err.Error(), "SECRET") || !strings.Contains(err.Error(), "fault_test.go:") {
					t.Error(err)
				}
			}()
			broken()
		})
	}
}
