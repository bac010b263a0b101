package oidc

import "github.com/modproxy/modproxy/auth"

// ParseKeys returns the number of signing keys in a set.
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

// LoginAt returns the login by a discovery document.
func LoginAt(l Login, document []byte) (*auth.Login, error) { return l.at(document) }
