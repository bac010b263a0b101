package git

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
)

// sshCommand returns the program and options with which git is to reach a. The address that was checked is the one
// that is connected to; the host's key is looked up by the host's name.
func (u *use) sshCommand(ctx context.Context, a address) (string, error) {
	shown, err := u.identity(a)
	if err != nil {
		return "", err
	}
	port := a.port
	if port == 0 {
		port = defaultPorts["ssh"]
	}
	to, err := u.Network.Resolve(ctx, a.host, port)
	if err != nil {
		return "", fetch.Outgoing(err)
	}
	alias := a.host
	if port != defaultPorts["ssh"] {
		alias = "[" + a.host + "]:" + strconv.Itoa(port) // as known_hosts has it
	}
	return sshCommandLine([]string{
		"HostName=" + to.Addr().String(),
		"Port=" + strconv.Itoa(int(to.Port())),
		"HostKeyAlias=" + alias,
		"IdentityFile=" + sshPath(shown.SSHKeyFile),
		"UserKnownHostsFile=" + sshPath(shown.KnownHostsFile),
	}), nil
}

// identity returns the credential with the key for a's host.
func (u *use) identity(a address) (fetch.Credential, error) {
	shown := u.credentials.Of(a.host)
	if shown.SSHKeyFile == "" || shown.KnownHostsFile == "" {
		return shown, fmt.Errorf("%w: no ssh key and known hosts are configured for %s", modproxy.ErrDenied, a.host)
	}
	if strings.ContainsAny(shown.SSHKeyFile+shown.KnownHostsFile, "\"\\\n\r\x00") {
		return shown, fmt.Errorf("%w: the name of an ssh key or known hosts file for %s has a quote, backslash or line break", modproxy.ErrDenied, a.host)
	}
	return shown, nil
}

// sshOptions leave ssh nothing to find out or to ask by itself.
var sshOptions = []string{
	"BatchMode=yes", "StrictHostKeyChecking=yes", "GlobalKnownHostsFile=/dev/null", "UpdateHostKeys=no", "CheckHostIP=no",
	"VerifyHostKeyDNS=no", "CanonicalizeHostname=no", "IdentitiesOnly=yes", "IdentityAgent=none",
	"PreferredAuthentications=publickey", "PasswordAuthentication=no", "KbdInteractiveAuthentication=no",
	"ForwardAgent=no", "ClearAllForwardings=yes", "PermitLocalCommand=no", "ProxyCommand=none", "ControlMaster=no",
	"ControlPath=none", "ConnectTimeout=30", "ServerAliveInterval=15", "ServerAliveCountMax=4",
}

func sshCommandLine(options []string) string {
	line := "ssh -F /dev/null"
	for _, option := range append(options, sshOptions...) {
		line += " -o '" + strings.ReplaceAll(option, "'", `'\''`) + "'"
	}
	return line
}

// sshPath quotes a file's name for ssh, which splits at spaces and expands percent signs.
func sshPath(name string) string {
	return `"` + strings.ReplaceAll(name, "%", "%%") + `"`
}
