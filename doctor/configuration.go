package doctor

import (
	"context"
	"errors"
	"strings"

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/internal/hint"
)

// configuration reports the mistakes in the configuration, except those of the certificate, which has its own check.
func (e *examination) configuration(context.Context) (found []Finding) {
	plain := *e.Config
	plain.TLS = config.TLS{}
	more, remarks := app.Problems(&plain)
	name := "the configuration"
	for _, err := range append(e.Wrong[:len(e.Wrong):len(e.Wrong)], more...) {
		f := finding("configuration", name, "%v", err)
		if errors.Is(err, egress.ErrProxy) {
			f = finding("proxy_variable", "environment", "%v", err)
		} else if hints := hint.Of(err); len(hints) > 0 {
			f = f.with(strings.Join(hints, "; "))
		}
		found = append(found, f)
	}
	for _, err := range remarks {
		if err != nil {
			found = append(found, finding("configuration_doubtful", name, "%v", err))
		}
	}
	return found
}
