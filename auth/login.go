package auth

import "time"

// Login describes where people obtain tokens of an issuer, in the form of login.v1 in service discovery.
// Host.ServiceOAuthClient reads it in disco/host.go of terraform-svchost and of opentofu/svchost.
type Login struct {
	// Client is the id of an OAuth client without a secret.
	Client string `json:"client"`
	// GrantTypes are names in the clients' terms. At least one must be supported by the clients.
	GrantTypes []string `json:"grant_types"`
	// Authorize and Token are absolute http or https URLs without a user.
	Authorize string `json:"authz"`
	Token     string `json:"token"`
	// Ports are the first and the last port that a client may listen on. Clients never use the last port, and none below 1024.
	Ports [2]int `json:"ports"`
	// Scopes are the OAuth scopes that clients request.
	Scopes []string `json:"scopes,omitempty"`
}

// Login returns where people log in. It is nil if login is not configured or not yet known. It does not block. now is from
// [time.Now].
func (a *Authenticator) Login(now time.Time) *Login {
	if a == nil || a.JWT == nil {
		return nil
	}
	return a.JWT.Login(now)
}
