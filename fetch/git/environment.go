package git

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
)

// largeFile is the size in bytes above which git streams a file, if it can.
const largeFile = 32 << 20

// commonSettings apply to every git.
var commonSettings = [][2]string{
	{"safe.directory", "*"}, // the directory is modproxy's own, whichever user owns Dir
	{"safe.bareRepository", "all"},
	{"core.hooksPath", os.DevNull}, {"core.attributesFile", os.DevNull}, {"core.excludesFile", os.DevNull},
	{"core.fsmonitor", "false"}, {"core.askPass", "false"}, {"credential.helper", ""},
	{"core.bigFileThreshold", strconv.Itoa(largeFile)}, {"pack.threads", "1"},
	{"init.defaultBranch", "main"}, {"advice.detachedHead", "false"},
	{"core.fsync", "none"}, // all files are removed after the fetch; git before 2.36 ignores this setting, and waits for the disk
	{"gc.auto", "0"}, {"maintenance.auto", "false"}, {"fetch.writeCommitGraph", "false"},
	{"fetch.unpackLimit", "1"}, // one pack: loose objects take longer than the fetch
	{"protocol.version", "2"},
	{"transfer.bundleURI", "false"}, // hints of a server must not lead elsewhere
	{"fetch.recurseSubmodules", "false"}, {"submodule.recurse", "false"},
	{"transfer.fsckObjects", "true"},
	// Findings of git fsck that are ignored. Old repositories have them, from tools that no longer exist, and the clients,
	// which check nothing, accept them. All but the last concern the author of a commit or tag, and the time, which no
	// package contains. zeroPaddedFilemode is a mode with a leading zero, with the same meaning. All other findings make
	// the fetch fail: names like "..", ".git" or "a/b", unsorted or duplicate entries, links and options in .gitmodules,
	// incomplete headers (https://git-scm.com/docs/git-fsck, "fsck messages").
	{"fetch.fsck.badDate", "ignore"}, {"fetch.fsck.badDateOverflow", "ignore"}, {"fetch.fsck.badEmail", "ignore"},
	{"fetch.fsck.badName", "ignore"}, {"fetch.fsck.badTimezone", "ignore"}, {"fetch.fsck.missingAuthor", "ignore"},
	{"fetch.fsck.missingEmail", "ignore"}, {"fetch.fsck.missingNameBeforeEmail", "ignore"},
	{"fetch.fsck.missingSpaceBeforeDate", "ignore"}, {"fetch.fsck.missingSpaceBeforeEmail", "ignore"},
	{"fetch.fsck.multipleAuthors", "ignore"}, {"fetch.fsck.zeroPaddedDate", "ignore"},
	{"fetch.fsck.missingTaggerEntry", "ignore"}, {"fetch.fsck.badTagName", "ignore"},
	{"fetch.fsck.zeroPaddedFilemode", "ignore"},
}

// environment returns the complete environment of a git process. From this process's environment it has only PATH.
// protocol is the only allowed protocol; empty allows none. settings are additional configuration, which appears in no
// file and no argument.
//
// A pack of a few kilobytes can describe an object of any size. git holds objects in memory if they are results of
// deltas, converted, or smaller than a threshold. GIT_ALLOC_LIMIT ends git for an object that is larger
// (memory_limit_check in git's wrapper.c). git does not hold several such objects at a time.
func (r *repository) environment(protocol string, settings [][2]string, more ...string) []string {
	home := filepath.Join(r.top, "home")
	env := append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + home, "TMPDIR=" + home, "LC_ALL=C",
		"GIT_DIR=" + r.dir,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "SSH_ASKPASS_REQUIRE=never",
		"GIT_ALLOW_PROTOCOL=" + protocol, "GIT_PROTOCOL_FROM_USER=0",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_LFS_SKIP_SMUDGE=1", "GIT_ALLOC_LIMIT=256m",
		"GIT_CONFIG_COUNT=" + strconv.Itoa(len(commonSettings)+len(settings)),
	}, more...)
	for i, s := range slices.Concat(commonSettings, settings) {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return env
}

// systemRoots lists the locations of root certificates, in the order of crypto/x509.
var systemRoots = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// rootsFile returns the file of root certificates for git. If it is empty, git uses its own. The file replaces git's
// roots, so rootsFile appends caFile to a copy of the system's roots. Like package crypto/x509, and so like all other
// connections of this process, it observes SSL_CERT_FILE.
func rootsFile(dir, caFile string) (string, error) {
	candidates := systemRoots
	if system := os.Getenv("SSL_CERT_FILE"); caFile == "" {
		return system, nil
	} else if system != "" {
		candidates = []string{system}
	}
	var all []byte
	for _, name := range candidates {
		if pem, err := os.ReadFile(name); err == nil {
			all = append(pem, '\n')
			break
		}
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "roots.pem")
	return name, os.WriteFile(name, append(all, pem...), 0o600)
}

// sshOptions prevent ssh from using other configuration and from prompting.
var sshOptions = []string{
	"BatchMode=yes", "StrictHostKeyChecking=yes", "GlobalKnownHostsFile=/dev/null", "UpdateHostKeys=no", "CheckHostIP=no",
	"VerifyHostKeyDNS=no", "CanonicalizeHostname=no", "IdentitiesOnly=yes", "IdentityAgent=none",
	"PreferredAuthentications=publickey", "PasswordAuthentication=no", "KbdInteractiveAuthentication=no",
	"ForwardAgent=no", "ClearAllForwardings=yes", "PermitLocalCommand=no", "ProxyCommand=none", "ControlMaster=no",
	"ControlPath=none", "ConnectTimeout=30", "ServerAliveInterval=15", "ServerAliveCountMax=4",
}

// prepareSSH sets the environment of a git that connects to r.at. git connects to the IP address that was checked. ssh
// looks up the host's key by the host's name.
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
		alias = "[" + alias + "]:" + strconv.Itoa(r.at.port) // the form in known_hosts
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

// sshPath quotes a file name for ssh, which splits at spaces and expands percent signs.
func sshPath(name string) string {
	return `"` + strings.ReplaceAll(name, "%", "%%") + `"`
}
