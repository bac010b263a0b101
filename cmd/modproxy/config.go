package main

import (
	"time"

	"github.com/modproxy/modproxy/upstream/egress"
)

// Config is what modproxy can be told. The comments on its fields are the
// reference; config.example.yaml has the same keys with their defaults.
//
// A key is its path in the file: the field Fresh of Cache is cache.fresh, its
// variable MODPROXY_CACHE_FRESH. Durations are written with their unit (30s, 5m,
// 720h), sizes too (512KiB, 64MiB, 50GiB). A relative path starts at the
// directory that modproxy is started in.
type Config struct {
	// Listen is the address and port to accept connections on; without an
	// address, all addresses of this machine; port 0 takes any free one. On any
	// but a loopback address clients have to show a credential, unless Anonymous
	// is set; and on that, where PublicURL or TrustedProxies say that others come
	// from in front of it. Where they have not, requests are answered only to names
	// that this proxy is known by. Default: 127.0.0.1:8080.
	Listen string `yaml:"listen"`

	// PublicURL is the http or https URL under which clients see this proxy, when
	// that is another than the one it listens on: behind a load balancer, say. It
	// may have a path. Unless its host is a loopback address or localhost, clients
	// have to show a credential. Empty: what the request was sent to. Default: empty.
	PublicURL string `yaml:"public_url"`

	// TrustedProxies are the addresses, or networks such as 10.0.0.0/8, of the
	// reverse proxies whose X-Forwarded-For, -Host and -Proto headers count, or
	// where a request has no X-Forwarded-* at all, Forwarded; what clients send of
	// those that the reverse proxy sets, it has to overwrite.
	// From anybody else they are ignored. With one, clients have to show a
	// credential. Default: nobody.
	TrustedProxies []string `yaml:"trusted_proxies"`

	// Anonymous is that nobody is asked who they are, on an address that other
	// machines can reach or behind a reverse proxy either: whoever can connect can
	// read every module that this proxy can. Default: false.
	Anonymous bool `yaml:"anonymous"`

	// Auth is who may ask.
	Auth Auth `yaml:"auth"`

	// Data is the directory of everything that is kept: ledger, index, packages.
	// It is created when it is missing. Default: modproxy-data.
	Data string `yaml:"data"`

	// TLS is how this proxy shows who it is. Without, it speaks plain HTTP.
	TLS TLS `yaml:"tls"`

	// Upstreams are the registries that may be asked. The first with a name is
	// the default for modules that are asked for under this proxy's own hostname.
	// Default: registry.terraform.io and registry.opentofu.org.
	Upstreams []Upstream `yaml:"upstreams"`

	// Routes say which upstream answers for a namespace, when a module is asked
	// for under this proxy's own hostname. Default: none.
	Routes []Route `yaml:"routes"`

	// Egress limits what outgoing connections may reach.
	Egress Egress `yaml:"egress"`

	// Credentials are for the hosts that packages are fetched from, which need
	// not be the registries. Default: none.
	Credentials []Credential `yaml:"credentials"`

	// Cache is how long answers are kept.
	Cache Cache `yaml:"cache"`

	// Ledger is about the record of what versions were first seen to be.
	Ledger Ledger `yaml:"ledger"`

	// Fetch bounds the fetching of packages.
	Fetch Fetch `yaml:"fetch"`

	// Limits bound what clients may ask for. What hits a bound waits, or is told
	// to come back.
	Limits Limits `yaml:"limits"`

	// Offline makes this proxy answer from what it has and never ask a registry
	// or a forge. Default: false.
	Offline bool `yaml:"offline"`

	// Log is what is written to standard error.
	Log Log `yaml:"log"`

	// Shutdown is how long running requests and fetches may still take after
	// SIGTERM or SIGINT. Default: 30s.
	Shutdown time.Duration `yaml:"shutdown"`
}

// Auth is who may ask. Whoever shows a token that "modproxy token create" made,
// or one that an issuer signed, may read what its scopes say.
type Auth struct {
	// Required is that a credential is wanted on a loopback address with nothing in
	// front, too. Elsewhere it always is, unless Anonymous is set. Default: false.
	Required bool `yaml:"required"`

	// SignedPaths is how long the path of a package, by which clients fetch it
	// without showing their token, is good at least; at most it is twice as long.
	// With a revoked token it ends at once. From 1m to 168h. Default: 1h.
	SignedPaths time.Duration `yaml:"signed_paths"`

	// Issuers are identity providers and CI systems whose tokens count, by OpenID
	// Connect. They are asked for their keys by https, within the bounds of
	// Egress. Default: none.
	Issuers []Issuer `yaml:"issuers"`
}

// Issuer signs tokens that count here.
type Issuer struct {
	// URL is the issuer as its tokens name it, with https. Required.
	URL string `yaml:"url"`

	// Audience is this proxy, as it stands in tokens that are for it. Required.
	Audience string `yaml:"audience"`

	// Algorithms are those that its signatures may have. Default: empty, which is
	// RS256 and ES256.
	Algorithms []string `yaml:"algorithms"`

	// GroupsClaim is the claim that has the values of groups. Default: empty.
	GroupsClaim string `yaml:"groups_claim"`

	// Groups are what its tokens count for. One that is in many may do what all of
	// them may, one that is in none may read nothing. Default: empty.
	Groups []Group `yaml:"groups"`
}

// Group is those whose tokens have one of Values and all of Match. It has at least
// one of the two.
type Group struct {
	// Name is for the log. Required.
	Name string `yaml:"name"`

	// Values are values of the groups claim. Default: empty.
	Values []string `yaml:"values"`

	// Match are claims and the value that each must have: project_path=acme/infra.
	// Default: empty.
	Match []string `yaml:"match"`

	// Scopes are whose modules may be read: registry.example.com/acme, where
	// either part may be * as a whole, or * for every module. Default: empty.
	Scopes []string `yaml:"scopes"`

	// Admin is whether they may operate the proxy, and read its metrics. It does
	// not make any module readable. Default: false.
	Admin bool `yaml:"admin"`
}

// Limits bound what clients may ask for.
type Limits struct {
	// Connections is how many may be open at a time; further ones wait. Default:
	// 4096.
	Connections int `yaml:"connections"`

	// Requests is how many requests are answered at the same time, those that wait
	// for a package to be fetched included. Default: 1024.
	Requests int `yaml:"requests"`

	// Rate is how many requests a second one client may send: who shows the same
	// token, or else comes from the same address. Default: 0, any number.
	Rate int `yaml:"rate"`
}

// TLS names a certificate. Both files are set, or neither.
type TLS struct {
	// CertFile is a PEM file: the certificate, then its intermediates. Default:
	// empty, plain HTTP.
	CertFile string `yaml:"cert_file"`

	// KeyFile is a PEM file with the certificate's private key. Default: empty.
	KeyFile string `yaml:"key_file"`
}

// Upstream is a registry that may be asked.
type Upstream struct {
	// Host is the registry's hostname, with its port if that is not 443: what
	// stands first in a module's source address. "*" is any registry that is
	// asked for by its path, /registry.example.com/v1/modules/…. Required.
	Host string `yaml:"host"`

	// Modules is the registry's modules.v1 base URL, to use instead of what
	// service discovery says. Empty: discover. Default: empty.
	Modules string `yaml:"modules"`

	// Providers is the registry's providers.v1 base URL, to use instead of what
	// service discovery says. Empty: discover. Default: empty.
	Providers string `yaml:"providers"`

	// Token is sent as a bearer token to this registry and to nobody else.
	// Default: empty, none is sent.
	Token egress.Secret `yaml:"token"`

	// TokenFile is a file to read Token from; a newline at its end is cut. Only
	// one of the two may be set. Default: empty.
	TokenFile string `yaml:"token_file"`

	// Rate is how many questions a second this registry is asked at most; whoever
	// has one too many is told to come back. Default: 0, which is 100.
	Rate int `yaml:"rate"`
}

// Route sends a namespace to an upstream.
type Route struct {
	// Namespace is a namespace, exactly as in module addresses: its case counts.
	// Required.
	Namespace string `yaml:"namespace"`

	// Upstream is the host of one of the upstreams. Required.
	Upstream string `yaml:"upstream"`
}

// Egress limits what outgoing connections may reach. Loopback, private and
// other special-purpose addresses are refused, whatever name leads to them.
type Egress struct {
	// Allow are hostnames and addresses, with or without a port, and networks
	// (git.corp.example, 10.1.2.3:8443, 10.0.0.0/8) that may be reached although
	// they are internal; without a port, on every port. Plain http is spoken to
	// these only. Default: none.
	Allow []string `yaml:"allow"`

	// Ports are the TCP ports that may be connected to besides 443; git over SSH
	// needs 22 here. Default: none.
	Ports []int `yaml:"ports"`

	// ProxyNames has the proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names by http
	// or https look names up. Else they are looked up here, and the proxy is asked for
	// an address that may be reached, or for a hostname in Allow. Default: false.
	ProxyNames bool `yaml:"proxy_names"`

	// CAFile is a PEM file of certificate authorities to trust besides those of
	// the system. Default: empty, none.
	CAFile string `yaml:"ca_file"`
}

// Credential is who this proxy is to one host that packages are fetched from.
// Username and password are for https, the SSH key is for git over SSH; a
// credential has at least one of the two.
type Credential struct {
	// Host is the exact host, with its port if that is not the scheme's usual
	// one; nothing is sent to any other host or port. Required.
	Host string `yaml:"host"`

	// Username goes with Password. Many forges take any name beside a token.
	// Default: empty.
	Username string `yaml:"username"`

	// Password is a password or an access token. Default: empty.
	Password egress.Secret `yaml:"password"`

	// PasswordFile is a file to read Password from; a newline at its end is cut.
	// Only one of the two may be set. Default: empty.
	PasswordFile string `yaml:"password_file"`

	// SSHKeyFile is a private key without passphrase, in a file that only its
	// owner can read. Default: empty.
	SSHKeyFile string `yaml:"ssh_key_file"`

	// KnownHostsFile has the keys that the host may show, in the form of
	// ~/.ssh/known_hosts. Required with SSHKeyFile: a host that is not in it is
	// not talked to. Default: empty.
	KnownHostsFile string `yaml:"known_hosts_file"`

	// Scopes are whose modules may be fetched with it: registry.example.com/acme,
	// where either part may be *. Who publishes a module says where its package is:
	// without scopes any publisher of a registry that may be asked can have what
	// the credential opens fetched as a module, and read it if he may read that.
	// Default: empty, it may be used for any module.
	Scopes []string `yaml:"scopes"`
}

// Cache is how long answers are kept, and how many packages.
type Cache struct {
	// Fresh is how long an answer about versions and locations is served without
	// asking upstream again. Default: 5m.
	Fresh time.Duration `yaml:"fresh"`

	// MaxStale is how old such an answer may become and still be served while
	// upstream is in trouble. It is at least Fresh. Default: 720h (30 days).
	MaxStale time.Duration `yaml:"max_stale"`

	// Missing is how long it is remembered that upstream has no such module or
	// version. Default: 30s.
	Missing time.Duration `yaml:"missing"`

	// MaxSize is how many bytes all kept packages may have together, those that
	// are being written included. To make room for a package those are removed
	// that were not used for longest; they are fetched again when they are asked
	// for, and must be the same then. A package larger than this is refused. What
	// is being fetched is unpacked beside them, and does not count; what was set
	// aside as evidence does. Default: 0B, packages are kept for ever.
	MaxSize ByteSize `yaml:"max_size"`

	// Pinned are the scopes whose packages stay, whatever MaxSize says:
	// registry.example.com/acme, where either part may be *. Default: none.
	Pinned []string `yaml:"pinned"`

	// MaxVersions is how many bytes the kept versions documents may have together,
	// in their compressed form. Beyond it those go that were asked for longest ago,
	// the ones of modules of which no package is kept before the others. 0B: any
	// number. Default: 256MiB.
	MaxVersions ByteSize `yaml:"max_versions"`

	// Memory is how much memory kept answers may take; what does not fit is read
	// from disk. Default: 64MiB.
	Memory ByteSize `yaml:"memory"`
}

// Ledger is about the record of what versions were first seen to be.
type Ledger struct {
	// Recheck is how long it takes to ask upstream about every recorded version
	// that comes from git, one after the other, whether it is still at the recorded
	// commit, over and over. What is not is fetched and compared. At least 1m.
	// Default: 0s, upstream is not asked.
	Recheck time.Duration `yaml:"recheck"`
}

// Fetch bounds the fetching of packages. What hits a bound is refused, never cut.
type Fetch struct {
	// Timeout is how long the fetch of one package may take. Default: 15m.
	Timeout time.Duration `yaml:"timeout"`

	// AtOnce is how many packages are fetched at the same time, three quarters of
	// them at most of one namespace of a registry, and an eighth left for namespaces
	// that have none; further ones wait. Default: 8.
	AtOnce int `yaml:"at_once"`

	// MaxReceived is how many bytes may arrive for one package, compressed as
	// they are. Default: 1GiB.
	MaxReceived ByteSize `yaml:"max_received"`

	// MaxUnpacked is how many bytes the files of one package may have together.
	// Default: 2GiB.
	MaxUnpacked ByteSize `yaml:"max_unpacked"`

	// MaxFiles is how many files, links and directories one package may have.
	// Default: 100000.
	MaxFiles int `yaml:"max_files"`

	// StrictNames refuses packages with names that some file system takes for the
	// same: they differ only in case, in composed characters, or in what Windows
	// drops from a name. Else such names are kept and noted. Default: false.
	StrictNames bool `yaml:"strict_names"`
}

// Log is what is written to standard error.
type Log struct {
	// Level is the least that is written: debug, info, warn or error.
	// Default: info.
	Level string `yaml:"level"`
}

// defaultConfig is what is in force where nothing else is said.
func defaultConfig() *Config {
	return &Config{
		Listen:    "127.0.0.1:8080",
		Auth:      Auth{SignedPaths: time.Hour},
		Data:      "modproxy-data",
		Upstreams: []Upstream{{Host: "registry.terraform.io"}, {Host: "registry.opentofu.org"}},
		Cache:     Cache{Fresh: 5 * time.Minute, MaxStale: 720 * time.Hour, Missing: 30 * time.Second, MaxVersions: 256 * mebibyte, Memory: 64 * mebibyte},
		Fetch: Fetch{
			Timeout: 15 * time.Minute, AtOnce: 8,
			MaxReceived: 1024 * mebibyte, MaxUnpacked: 2048 * mebibyte, MaxFiles: 100_000,
		},
		Limits:   Limits{Connections: 4096, Requests: 1024},
		Log:      Log{Level: "info"},
		Shutdown: 30 * time.Second,
	}
}
