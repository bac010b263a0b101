package app

import (
	"errors"

	"github.com/modproxy/modproxy/config"
)

// Problems returns what is wrong with c besides what [config.Check] finds: with the rules of the policy, keys, lists to be mirrored
// and the certificate. It leaves out checks of keys that are wrong already. The remarks are about what is in order.
func Problems(c *config.Config) (wrong config.Error, remarks []error) {
	add := func(err error) {
		var all config.Error
		if errors.As(err, &all) {
			wrong = append(wrong, all...)
		} else if err != nil {
			wrong = append(wrong, err)
		}
	}
	remarks = append(remarks, c.Deprecated())
	if c.IsSound("bundle") {
		add(CheckKeys(c))
	}
	if c.IsSound("mirror", "upstreams", "offline") {
		add(CheckMirrors(c))
	}
	if c.IsSound("tls") {
		expires, err := CheckCertificate(c)
		add(err)
		remarks = append(remarks, expires)
	}
	if c.IsSound("policy", "upstreams", "routes") {
		rules, err := PolicyOf(c)
		add(err)
		if err == nil {
			remarks = append(remarks, NeverHold(c, rules), NoProviders(rules))
		}
	}
	return wrong, remarks
}
