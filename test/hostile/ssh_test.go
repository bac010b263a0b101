//go:build linux

package hostile_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// sshHosts are names with a configured ssh key: the address of each, its known host key, and the key that it receives.
var sshHosts = map[string]struct {
	to    []string
	known string // "": the host's own key
	key   string
}{
	"ssh.test":      {[]string{sshAddress}, "", "client"},
	"mixed.test":    {[]string{"10.0.0.5", sshAddress, "fd00:ec2::254"}, "", "client"},
	"unknown.test":  {[]string{sshAddress}, "other.test KEY", "client"},
	"port.test":     {[]string{sshAddress}, "[port.test]:2222 KEY", "client"},
	"changed.test":  {[]string{sshAddress}, "changed.test OTHER", "client"},
	"revoked.test":  {[]string{sshAddress}, "@revoked revoked.test KEY", "client"},
	"stranger.test": {[]string{sshAddress}, "", "strange"},
	"inside.test":   {[]string{"10.0.0.5"}, "", "client"},
	"loop.test":     {[]string{"127.0.0.1", "::1"}, "", "client"},
	"metadata.test": {[]string{"169.254.169.254"}, "", "client"},
	"mapped.test":   {[]string{"::ffff:10.0.0.5"}, "", "client"},
	"rebind.test":   {[]string{sshAddress}, "", "client"},
}

func (s *sshServer) credentials(t *testing.T) string {
	other := keygen(t, s.file("other"))
	var config strings.Builder
	for name, host := range sshHosts {
		world.names.set(name, host.to...)
		known := host.known
		if known == "" {
			known = name + " KEY"
		}
		known = strings.NewReplacer("KEY", s.hostKey, "OTHER", other).Replace(known)
		if err := os.WriteFile(s.file("known."+name), []byte(known+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&config, "  - {host: %s, ssh_key_file: %s, known_hosts_file: %s}\n", name, s.file(host.key), s.file("known."+name))
	}
	return config.String()
}

// bySSH is ordinary with keys, and the port of ssh.
func bySSH(credentials string) string {
	return strings.NewReplacer("egress: {", "egress: {ports: [22], ", "credentials:\n", "credentials:\n"+credentials).Replace(ordinary)
}

// A repository is fetched by ssh from the intended host, checked by its name, its address and its key, or not at all.
func TestSSH(t *testing.T) {
	s := startSSH(t)
	if s == nil {
		return
	}
	p := startOwn(t, bySSH(s.credentials(t)))
	want := map[string]file{"main.tf": {"output \"from\" { value = \"ssh\" }\n", false}}
	repository := s.file("network.git")
	for name, location := range map[string]string{
		"url":     "git::ssh://git@ssh.test" + repository + "?ref=v1.0.0",
		"port":    "git::ssh://git@ssh.test:22" + repository + "?ref=v1.0.0",
		"no-user": "git::ssh://ssh.test" + repository + "?ref=main",
		"scp":     "git::git@ssh.test:" + repository + "?ref=v1.0.0",
		"short":   "git@ssh.test:" + repository + "?ref=v1.0.0",
		"mixed":   "git::ssh://git@mixed.test" + repository + "?ref=v1.0.0", // only the good address is used
		"rebound": "git::ssh://git@rebind.test" + repository + "?ref=v1.0.0",
	} {
		p.run(name, func(t *testing.T) {
			if name == "rebound" {
				world.names.rebind("rebind.test", sshAddress, "10.0.0.5")
			}
			same(t, name, p.mustInstall(module{located(location).host(t), "case", "ssh", "aws"}, "1.0.0"), want)
		})
	}
	owned := filepath.Join(p.data, "owned")
	const notAllowed, noKey, malformed, unverified = `not allowed`, `no ssh key`, `invalid`, `Host key verification failed`
	for location, why := range map[string]string{
		"git::ssh://git@unknown.test" + repository:                           unverified,
		"git::ssh://git@port.test" + repository:                              unverified,
		"git::ssh://git@changed.test" + repository:                           unverified,
		"git::ssh://git@revoked.test" + repository:                           unverified,
		"git::ssh://git@stranger.test" + repository:                          `Permission denied`,
		"git::ssh://root@ssh.test/etc":                                       `.`,
		"git::ssh://git@inside.test" + repository:                            notAllowed,
		"git::ssh://git@loop.test" + repository:                              notAllowed,
		"git::ssh://git@metadata.test" + repository:                          notAllowed,
		"git::ssh://git@mapped.test" + repository:                            notAllowed,
		"git::git@inside.test:network.git":                                   notAllowed,
		"git::ssh://git@ssh.test:2222" + repository:                          notAllowed,
		"git::ssh://git@10.0.0.5" + repository:                               noKey + "|" + notAllowed,
		"git::ssh://git@[::1]" + repository:                                  noKey + "|" + notAllowed,
		"git::ssh://git@nobody.test" + repository:                            noKey,
		"git::ssh://-oProxyCommand=touch%20" + owned + "/x":                  malformed,
		"git::ssh://-oProxyCommand=touch%24IFS" + owned + "@ssh.test/x":      malformed,
		"git::ssh://git@-oProxyCommand=touch%20x/x":                          malformed,
		"git::-oProxyCommand=touch@ssh.test:x":                               malformed + "|" + notAllowed,
		"git::git@-oProxyCommand=touch:x":                                    malformed + "|" + notAllowed,
		"git::ssh://git@ssh.test/-oProxyCommand=x":                           malformed,
		"git::ssh://git@ssh.test/--upload-pack=touch%20" + owned:             malformed,
		"git::ssh://git@ssh.test" + repository + "';touch%20" + owned + ";'": malformed,
		"git::ssh://git@ssh.test" + repository + "%0aProxyCommand%20touch":   malformed,
		"git::ssh://git%0aProxyCommand=touch@ssh.test" + repository:          malformed,
		"git::ssh://git@ssh.test" + repository + "?sshkey=" + "QUJD":         malformed,
		"git::ssh://git:" + secretLocation + "@ssh.test" + repository:        malformed,
		"git::ssh://git@ssh.test%20-oProxyCommand=touch" + repository:        malformed,
		"git::ssh+git://git@ssh.test" + repository:                           malformed + "|" + notAllowed,
		"git::ssh://git@ssh.test" + repository + "?ref=--upload-pack=touch":  malformed,
	} {
		p.run(strings.Map(lettersOnly, location), func(t *testing.T) {
			gits := len(p.gits())
			p.refuse(t, module{located(location).host(t), "case", "ssh", "aws"}, "1.0.0", why)
			if now := p.gits(); why == malformed && len(now) > gits {
				t.Errorf("git was started: %q", now[gits:])
			}
			if _, err := os.Stat(owned); err == nil {
				t.Error("a command was run")
			}
		})
	}
}

func lettersOnly(r rune) rune {
	if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' {
		return r
	}
	return '_'
}

// A server that stalls is given up, and the programs for it end.
func TestSSHThatStalls(t *testing.T) {
	s := startSSH(t)
	if s == nil {
		return
	}
	credentials := s.credentials(t)
	world.names.set("ssh.test", stallingAddress)
	timeout := brief(t, 2*time.Second)
	config := strings.Replace(bySSH(credentials), "timeout: 1m", "timeout: "+timeout.String(), 1)
	p := startOwn(t, strings.NewReplacer("  - host: up-a.test\n", "").Replace(config))
	l := listenSSH(t, stallingAddress)
	for name, serve := range map[string]func(c net.Conn){
		"silent":         func(net.Conn) {},
		"version":        func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n") },
		"half-a-version": func(c net.Conn) { io.WriteString(c, "SSH-2.0-Open") },
		"endless-banner": func(c net.Conn) {
			for {
				if _, err := io.WriteString(c, strings.Repeat("x", 200)+"\r\n"); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		},
		"huge-packet": func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n\xff\xff\xff\xff\x00") },
	} {
		p.run(name, func(t *testing.T) {
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				serve(c)
				io.Copy(io.Discard, c)
			}()
			started := time.Now()
			p.refuse(t, module{located("git::ssh://git@ssh.test/network.git").host(t), "case", "ssh", "aws"}, "1.0.0", `not done|unavailable`)
			if took := time.Since(started); rig.Late(took, soonEnough) {
				t.Errorf("given up after %v; want %v", took, timeout)
			}
			if !eventually(func() bool { return len(processes()) == 0 }) {
				t.Errorf("left behind: %v", processes())
			}
		})
	}
}
