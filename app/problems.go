package app

import (
	"errors"

	"github.com/modproxy/modproxy/config"
)

// Problems returns the problems of c that [config.Check] does not find: in the rules of the policy, the keys of bundles, the
// mirrors and the certificate. It leaves out the parts of c that already have errors. The remarks are about parts without errors.
// A remark may be nil.
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
