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
	"github.com/modproxy/modproxy/ledger"
)

// checkOwn compares the host of own modules with the host in the ledger, and records a new one. Offline, and on read-only data, it records
// none: then modproxy records no version of an own module either.
func (a *App) checkOwn(ctx context.Context) error {
	host := a.config.OwnHost()
	if err := CheckOwnHost(ctx, a.config, a.Ledger); err != nil {
		return err
	}
	if len(a.config.Modules) == 0 || host == a.Ledger.Own() || a.config.Offline || a.ReadOnly() != nil {
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

// CheckOwnHost returns a [config.Error] if own modules have another host than before, and versions are recorded under the old one: clients
// could no longer install them.
func CheckOwnHost(ctx context.Context, c *config.Config, l *ledger.Log) error {
	host, recorded := c.OwnHost(), l.Own()
	if len(c.Modules) == 0 || recorded == "" || host == recorded {
		return nil
	}
	records := 0
	for r, err := range l.All(ctx) {
		if err != nil {
			return err
		}
		if r.Host == recorded && !r.IsProvider() {
			records++
		}
	}
	if records == 0 {
		return nil
	}
	key := "modules_host"
	if c.ModulesHost == "" {
		key, host = "public_url", "its host, "+host+","
	}
	err := fmt.Errorf("%s: %s: %s is not the host of own modules in the ledger, %s; records with that host: %d", c.Source(key), key, host, recorded, records)
	return config.Error{hint.With(err, fmt.Sprintf("set modules_host: %s; clients cannot install the recorded versions under another host", hostname.Display(recorded)))}
}
