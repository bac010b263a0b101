package oidc

import (
	"strconv"
	"time"

	"github.com/modproxy/modproxy/auth"
)

// ParseKeys is how many keys of a set sign.
func ParseKeys(document []byte) (int, error) {
	keys, err := parseKeys(document)
	for i := range keys {
		if !keys[i].IsPublic() {
			return 0, errNoKey
		}
	}
	return len(keys), err
}

var ParseDiscovery = parseDiscovery

// Remember is how many of n tokens are remembered.
func Remember(n int) int {
	var v verified
	for i := range n {
		v.put(sum(strconv.Itoa(i)), auth.Principal{}, time.Time{})
	}
	return len(v.young) + len(v.old)
}
