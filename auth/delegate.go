package auth

import (
	"fmt"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// MayCreate returns the reason why p must not create a token with the rights and the life of t, or nil. A token that an operator
// creates allows nothing that the operator's own credential does not allow, and ends no later. The owner of the data directory may
// create any token. The error is [modproxy.ErrDenied].
func (p Principal) MayCreate(t Token) error {
	denied := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s "+format, append([]any{modproxy.ErrDenied, p}, args...)...)
	}
	switch {
	case p.Kind == ByOwner:
		return nil
	case !p.Admin:
		return denied("may not create tokens")
	case !p.Until.IsZero() && (t.Expires.IsZero() || t.Expires.After(p.Until)):
		return denied("expires at %s, and a token that it creates cannot be valid for longer (--expires)", p.Until.UTC().Format(time.RFC3339))
	}
	for _, s := range t.Scopes {
		covering := func(own Scope) bool { return covers(own.Host, s.Host) && covers(own.Namespace, s.Namespace) }
		if !slices.ContainsFunc(p.Scopes, covering) {
			return denied("does not have the scope %s, and cannot create a token with it", s)
		}
	}
	return nil
}
