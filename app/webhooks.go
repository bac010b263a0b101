package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/webhook"
)

// newWebhooks returns the receiver of the configured webhooks, or nil if none is configured or modproxy is offline.
func (a *App) newWebhooks() *webhook.Receiver {
	if len(a.config.Webhooks) == 0 || a.config.Offline {
		return nil
	}
	secrets := map[string]egress.Secret{}
	for _, w := range a.config.Webhooks {
		secrets[w.ID] = w.Secret
	}
	return webhook.New(secrets, a.lookAt)
}

var errOfflineWebhook = fmt.Errorf("%w: modproxy is offline and sends no requests to forges", modproxy.ErrUnavailable)

// webhookMounts returns the route of webhooks, if the configuration has webhooks.
func webhookMounts(c *config.Config, receiver *webhook.Receiver) []proxy.Mount {
	handle := func(http.ResponseWriter, *http.Request) error { return errOfflineWebhook }
	if receiver != nil {
		handle = receiver.Handle
	} else if len(c.Webhooks) == 0 {
		return nil
	}
	return []proxy.Mount{{Method: http.MethodPost, Path: webhook.Path, Kind: "webhook", Open: true, Handle: handle}}
}

// lookAt requests the versions of all modules of a repository that a client has requested before, as "modproxy refresh" does. It forgets
// which modules of the repository were missing, and requests nothing about them.
func (a *App) lookAt(ctx context.Context, repository string) {
	listed, missing, err := a.Cache.Requested(ctx, a.config.OwnHost())
	for _, m := range missing {
		if a.isIn(m, repository) {
			a.Cache.Forget(m.At(""))
		}
	}
	var in admin.RefreshRequest
	for _, m := range listed {
		if a.isIn(m, repository) {
			in.Modules = append(in.Modules, m.String())
		}
	}
	_, errRefresh := admin.ModulesRefresh.Call(modproxy.InBackground(ctx), admin.Inside(a.api()), in, func(m admin.RefreshResult) error {
		if m.Error != "" {
			err = errors.New(m.Error) // the log has the others as versions_asked
		}
		return nil
	})
	err = cmp.Or(err, errRefresh)
	logEvent(a.log, "webhook", err, zap.String("repository", repository), zap.Int("modules", len(in.Modules)))
}

// isIn reports whether the versions of an own module are tags of a repository.
func (a *App) isIn(m modproxy.Address, repository string) bool {
	url, ok := a.own.Repository(m)
	return ok && webhook.Name(url) == repository
}
