package oidc

import "github.com/modproxy/modproxy/auth"

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

// LoginAt returns where people log in by a discovery document.
func LoginAt(l Login, document []byte) (*auth.Login, error) { return l.at(document) }
