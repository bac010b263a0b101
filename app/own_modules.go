package app

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/hint"
)

// checkOwn compares the host of own modules with the host in the ledger. Another host is an error if versions are recorded under the old
// one, because clients could no longer install them. Otherwise checkOwn records the host, unless modproxy is offline or the data is
// read-only: then it records nothing under the host itself.
func (a *App) checkOwn(ctx context.Context) error {
	host, recorded := a.config.OwnHost(), a.Ledger.Own()
	if len(a.config.Modules) == 0 || host == recorded {
		return nil
	}
	records := 0
	if recorded != "" {
		for r, err := range a.Ledger.All(ctx) {
			if err != nil {
				return err
			}
			if r.Host == recorded && !r.IsProvider() {
				records++
			}
		}
	}
	switch {
	case records > 0:
		return otherHost(a.config, recorded, records)
	case a.config.Offline || a.ReadOnly() != nil || a.Ledger.Failed() != nil:
		return nil
	}
	err := a.Ledger.SetOwn(ctx, host)
	if err == nil {
		logEvent(a.log, "modules_host_recorded", nil, zap.String("host", host))
	} else if errors.Is(err, modproxy.ErrUnavailable) { // stored packages are served on a full disk, too
		logEvent(a.log, "ledger_failed", err)
		err = nil
	}
	return err
}

// otherHost returns the error for a host of own modules that is not the recorded one.
func otherHost(c *config.Config, recorded string, records int) error {
	key, host := "modules_host", c.OwnHost()
	if c.ModulesHost == "" {
		key, host = "public_url", "its host, "+host+","
	}
	err := fmt.Errorf("%s: %s: %s is not the host of own modules in the ledger, %s; records with that host: %d", c.Source(key), key, host, recorded, records)
	return config.Error{hint.With(err, fmt.Sprintf("set modules_host: %s; clients cannot install the recorded versions under another host", hostname.Display(recorded)))}
}
