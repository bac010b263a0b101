package auth

import (
	"fmt"
	"strings"

	"github.com/modproxy/modproxy"
)

// Open reports whether clients may learn that modules of a registry are outside their scopes. If Open is nil or returns false,
// such modules do not exist for these clients. The answer to a client does not depend on which modules exist.
type Open func(host string) bool

// Outside is the error for a module that the scopes of a principal do not cover. It is [modproxy.ErrDenied], or
// [modproxy.ErrNotFound] if Hidden. The text of a hidden one is for the log only.
type Outside struct {
	Principal
	modproxy.Address
	Hidden bool
}

// outside returns the error for a principal that may not read m.
func (open Open) outside(p Principal, m modproxy.Address) error {
	return &Outside{p, m, open == nil || !open(m.Host)}
}

const maxNamed = 5 // scopes in an error text

func (o *Outside) Error() string {
	var names []string
	for _, s := range o.Scopes[:min(len(o.Scopes), maxNamed)] {
		names = append(names, s.String())
	}
	may := "nothing"
	if len(names) > 0 {
		may = strings.Join(names, ", ")
	}
	if more := len(o.Scopes) - len(names); more > 0 {
		may += fmt.Sprintf(" and %d more", more)
	}
	wanted, step := Scope{o.Host, o.Namespace}, "create a token with --scope "
	if o.Principal.Kind == ByIssuer {
		step = "no group in auth.issuers[].groups has the scope "
	}
	return fmt.Sprintf("%v: %s may read %s, and not %s (operator: %s%[4]s)", o.Unwrap(), o.Principal, may, wanted, step)
}

func (o *Outside) Unwrap() error {
	if o.Hidden {
		return modproxy.ErrNotFound
	}
	return modproxy.ErrDenied
}
