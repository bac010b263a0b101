package git

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
)

// sshOptions leave ssh nothing to find out or to ask by itself.
var sshOptions = []string{
	"BatchMode=yes", "StrictHostKeyChecking=yes", "GlobalKnownHostsFile=/dev/null", "UpdateHostKeys=no", "CheckHostIP=no",
	"VerifyHostKeyDNS=no", "CanonicalizeHostname=no", "IdentitiesOnly=yes", "IdentityAgent=none",
	"PreferredAuthentications=publickey", "PasswordAuthentication=no", "KbdInteractiveAuthentication=no",
	"ForwardAgent=no", "ClearAllForwardings=yes", "PermitLocalCommand=no", "ProxyCommand=none", "ControlMaster=no",
	"ControlPath=none", "ConnectTimeout=30", "ServerAliveInterval=15", "ServerAliveCountMax=4",
}

// prepareSSH sets the environment of a git that connects to r.at. The IP address that was checked is the one that is
// connected to; the host's key is looked up by the host's name.
func (u *use) prepareSSH(ctx context.Context, r *repository) error {
	shown, err := u.identity(r.at)
	if err != nil {
		return err
	}
	to, err := u.Network.Resolve(ctx, r.at.host, cmp.Or(r.at.port, defaultPorts["ssh"]))
	if err != nil {
		return fetch.Outgoing(err)
	}
	alias := r.at.host
	if r.at.port != 0 {
		alias = "[" + alias + "]:" + strconv.Itoa(r.at.port) // as known_hosts has it
	}
	line := "ssh -F /dev/null"
	for _, option := range append([]string{
		"HostName=" + to.Addr().String(),
		"Port=" + strconv.Itoa(int(to.Port())),
		"HostKeyAlias=" + alias,
		"IdentityFile=" + sshPath(shown.SSHKeyFile),
		"UserKnownHostsFile=" + sshPath(shown.KnownHostsFile),
	}, sshOptions...) {
		line += " -o '" + strings.ReplaceAll(option, "'", `'\''`) + "'"
	}
	r.network = r.environment("ssh", nil, "GIT_SSH_VARIANT=ssh", "GIT_SSH_COMMAND="+line)
	return nil
}

// identity returns the credential with the key for a's host.
func (u *use) identity(a address) (fetch.Credential, error) {
	shown := u.credentials.Of(a.host)
	switch {
	case shown.SSHKeyFile == "" || shown.KnownHostsFile == "":
		return shown, fmt.Errorf("%w: no ssh key and known hosts are configured for %s", modproxy.ErrDenied, a.host)
	case strings.ContainsAny(shown.SSHKeyFile+shown.KnownHostsFile, "\"\\\n\r\x00"):
		return shown, fmt.Errorf("%w: the name of an ssh key or known hosts file for %s has a quote, backslash or line break",
			modproxy.ErrDenied, a.host)
	}
	return shown, nil
}

// sshPath quotes a file's name for ssh, which splits at spaces and expands percent signs.
func sshPath(name string) string {
	return `"` + strings.ReplaceAll(name, "%", "%%") + `"`
}
