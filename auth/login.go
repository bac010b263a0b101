package auth

import "time"

// Login is where people get tokens of an issuer, as clients want to be told it: login.v1 of their service discovery, which
// Host.ServiceOAuthClient reads in disco/host.go of terraform-svchost and of opentofu/svchost.
type Login struct {
	// Client is the id of a client without a secret.
	Client string `json:"client"`
	// GrantTypes must have one that the clients have, in their own words.
	GrantTypes []string `json:"grant_types"`
	// Authorize and Token are absolute, with http or https and no user.
	Authorize string `json:"authz"`
	Token     string `json:"token"`
	// Ports are the first and the last that a client may listen on. It never takes the last, and none below 1024.
	Ports [2]int `json:"ports"`
	// Scopes are what a client asks for.
	Scopes []string `json:"scopes,omitempty"`
}

// Login returns where people log in, or nil if they cannot, or it is not known yet. It does not wait. now is from [time.Now].
func (a *Authenticator) Login(now time.Time) *Login {
	if a == nil || a.JWT == nil {
		return nil
	}
	return a.JWT.Login(now)
}
