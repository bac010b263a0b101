package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// A time that is over below, such as that for the headers of an answer, is not the
// time that a fetch or a question may take.
func TestTimeThatIsOver(t *testing.T) {
	below := fmt.Errorf("https://files.example.com/a.zip: %w: no header in time: %w", modproxy.ErrUnavailable, context.DeadlineExceeded)
	for name, c := range map[string]struct {
		change func(n *next)
		want   string
	}{
		"package below":  {func(n *next) { n.pack = below }, "https://files.example.com/a.zip: unavailable: no header in time"},
		"location below": {func(n *next) { n.err = below }, "https://files.example.com/a.zip: unavailable: no header in time"},
		"package here":   {func(n *next) { n.fetched, n.pack = nil, nil; n.delay = time.Hour }, "not done within 1m0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.next.change(c.change)
			_, err := read(f.Registry, "1.0.0")
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(c.want, "https:") && strings.Contains(err.Error(), "not done") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A disk that is full while a package is made is told as that, whichever layer met it.
func TestFullDiskBelow(t *testing.T) {
	for _, errno := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.next.pack = fmt.Errorf("write scratch/a: %w", errno)
			_, err := f.Package(t.Context(), vpc.At("1.0.0"))
			if _, full := errors.AsType[*modproxy.NoSpace](err); !full || !errors.Is(err, modproxy.ErrUnavailable) {
				t.Errorf("%v: %v", errno, err)
			}
		})
	}
}
