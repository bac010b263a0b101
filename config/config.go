package config

import (
	"time"

	"github.com/modproxy/modproxy/egress"
)

// Config is the configuration of modproxy. The comments on its fields are the
// reference; config.example.yaml has the same keys with their defaults.
//
// A key is its path in the file: the field Fresh of Cache is cache.fresh, and its
// variable is MODPROXY_CACHE_FRESH. Durations and sizes have units (30s, 5m, 720h;
// 512KiB, 64MiB, 50GiB). A relative path starts at the working directory of modproxy.
type Config struct {
	// Listen is the address and port to accept connections on. Without an address, all
	// addresses of this machine; port 0 takes any free one. On any but a loopback
	// address clients have to show a credential, unless Anonymous is set. They also
	// have to on a loopback address if PublicURL or TrustedProxies say that something
	// stands in front. If they do not have to on a loopback address, requests are
	// answered only under names that this proxy is known by. Default: 127.0.0.1:8080.
	Listen string `yaml:"listen"`

	// PublicURL is the http or https URL under which clients see this proxy, if it
	// differs from the one it listens on, behind a load balancer for example. It may
	// have a path. Unless its host is a loopback address or localhost, clients have to
	// show a credential. Empty: what the request was sent to. Default: empty.
	PublicURL string `yaml:"public_url"`

	// TrustedProxies are the addresses, or networks such as 10.0.0.0/8, of the reverse
	// proxies whose X-Forwarded-For, -Host and -Proto headers count, or Forwarded if a
	// request has no X-Forwarded-* header. A reverse proxy must overwrite the headers
	// that it sets when clients send them. The headers of other senders are ignored.
	// If any is set, clients have to show a credential. Default: nobody.
	TrustedProxies []string `yaml:"trusted_proxies"`

	// Anonymous turns authentication off, on any address and behind reverse proxies:
	// whoever can connect can read every module that this proxy can. Default: false.
	Anonymous bool `yaml:"anonymous"`

	// Auth is who may ask.
	Auth Auth `yaml:"auth"`

	// Data is the directory for everything that is kept: ledger, index, packages. It
	// is created if it is missing. Default: modproxy-data.
	Data string `yaml:"data"`

	// TLS is the certificate of this proxy. Without one, it speaks plain HTTP.
	TLS TLS `yaml:"tls"`

	// Upstreams are the registries that may be asked. The first with a name is the
	// default for modules requested under this proxy's own hostname. Default:
	// registry.terraform.io and registry.opentofu.org.
	Upstreams []Upstream `yaml:"upstreams"`

	// Routes say which upstream answers for a namespace, for modules requested under
	// this proxy's own hostname. Default: none.
	Routes []Route `yaml:"routes"`

	// Egress limits what outgoing connections may reach.
	Egress Egress `yaml:"egress"`

	// Credentials are for the hosts that packages are fetched from, which may differ
	// from the registries. Default: none.
	Credentials []Credential `yaml:"credentials"`

	// Cache is how long answers are kept.
	Cache Cache `yaml:"cache"`

	// Ledger is the record of what versions contained when they were first seen.
	Ledger Ledger `yaml:"ledger"`

	// Fetch limits the fetching of packages.
	Fetch Fetch `yaml:"fetch"`

	// Limits are limits on clients. What exceeds a limit waits, or is told to come
	// back.
	Limits Limits `yaml:"limits"`

	// Offline makes this proxy answer from what it has and never ask a registry or a
	// forge. Default: false.
	Offline bool `yaml:"offline"`

	// Log is what is written to standard error.
	Log Log `yaml:"log"`

	// Shutdown is how long running requests and fetches may take after SIGTERM or
	// SIGINT. Default: 30s.
	Shutdown time.Duration `yaml:"shutdown"`
}

// Auth is who may ask. A token that "modproxy token create" made, or that an issuer
// signed, may read what its scopes say.
type Auth struct {
	// Required requires a credential on a loopback address with nothing in front, too.
	// Elsewhere one is always required, unless Anonymous is set. Default: false.
	Required bool `yaml:"required"`

	// SignedPaths is the minimum time for which the path of a package is valid; the
	// maximum is twice that. Clients fetch packages by it without their token. It ends
	// at once with a revoked token. From 1m to 168h. Default: 1h.
	SignedPaths time.Duration `yaml:"signed_paths"`

	// Issuers are identity providers and CI systems whose tokens are accepted, by
	// OpenID Connect. Their keys are fetched by https, within the limits of Egress.
	// Default: none.
	Issuers []Issuer `yaml:"issuers"`
}

// Issuer signs tokens that are accepted here.
type Issuer struct {
	// URL is the issuer as its tokens name it, with https. Required.
	URL string `yaml:"url"`

	// Audience is the name of this proxy in tokens that are meant for it. Required.
	Audience string `yaml:"audience"`

	// Algorithms are the accepted signature algorithms. Default: empty, which means
	// RS256 and ES256.
	Algorithms []string `yaml:"algorithms"`

	// GroupsClaim is the claim that holds the values of groups. Default: empty.
	GroupsClaim string `yaml:"groups_claim"`

	// Groups are what the issuer's tokens may do. A token in several groups may do
	// what all of them may. A token in no group may read nothing. Default: empty.
	Groups []Group `yaml:"groups"`
}

// Group is the tokens that have one of Values and all of Match. At least one of the
// two is set.
type Group struct {
	// Name is for the log. Required.
	Name string `yaml:"name"`

	// Values are values of the groups claim. Default: empty.
	Values []string `yaml:"values"`

	// Match are claims with the value that each must have: project_path=acme/infra.
	// Default: empty.
	Match []string `yaml:"match"`

	// Scopes are whose modules may be read: registry.example.com/acme, where either
	// part may be * as a whole, or * for every module. Default: empty.
	Scopes []string `yaml:"scopes"`

	// Admin allows operating the proxy and reading its metrics. It does not make any
	// module readable. Default: false.
	Admin bool `yaml:"admin"`
}

// Limits are limits on clients.
type Limits struct {
	// Connections is how many may be open at a time; further ones wait. Default:
	// 4096.
	Connections int `yaml:"connections"`

	// Requests is how many requests are answered at the same time, including those
	// that wait for a package to be fetched. Default: 1024.
	Requests int `yaml:"requests"`

	// Rate is how many requests a second one client may send. A client is a token, or
	// else an address. Default: 0, unlimited.
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
	// Host is the registry's hostname, with its port if that is not 443: the first
	// part of a module's source address. "*" is any registry requested by its path,
	// /registry.example.com/v1/modules/…. Required.
	Host string `yaml:"host"`

	// Modules is the registry's modules.v1 base URL, instead of service discovery.
	// Empty: discover. Default: empty.
	Modules string `yaml:"modules"`

	// Providers is the registry's providers.v1 base URL, instead of service discovery.
	// Empty: discover. Default: empty.
	Providers string `yaml:"providers"`

	// Token is sent as a bearer token to this registry only. Default: empty, none is
	// sent.
	Token egress.Secret `yaml:"token"`

	// TokenFile is a file to read Token from; a newline at its end is cut. Only
	// one of the two may be set. Default: empty.
	TokenFile string `yaml:"token_file"`

	// Rate is the maximum number of questions a second to this registry. A client with
	// a question too many is told to come back. Default: 0, which means 100.
	Rate int `yaml:"rate"`
}

// Route sends a namespace to an upstream.
type Route struct {
	// Namespace is a namespace, exactly as in module addresses, in the same case.
	// Required.
	Namespace string `yaml:"namespace"`

	// Upstream is the host of one of the upstreams. Required.
	Upstream string `yaml:"upstream"`
}

// Egress limits what outgoing connections may reach. Loopback, private and
// other special-purpose addresses are refused, whatever name leads to them.
type Egress struct {
	// Allow are internal hostnames and addresses, with or without a port, and networks
	// (git.corp.example, 10.1.2.3:8443, 10.0.0.0/8) that may be reached; without a
	// port, on every port. Only these may be reached by http. Default: none.
	Allow []string `yaml:"allow"`

	// Ports are the allowed TCP ports besides 443; git over SSH needs 22. Default:
	// none.
	Ports []int `yaml:"ports"`

	// ProxyNames makes the proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names by
	// http or https look names up. Otherwise modproxy looks them up, and asks the
	// proxy for an address that may be reached, or for a hostname in Allow. Default:
	// false.
	ProxyNames bool `yaml:"proxy_names"`

	// CAFile is a PEM file of certificate authorities to trust besides those of
	// the system. Default: empty, none.
	CAFile string `yaml:"ca_file"`
}

// Credential identifies this proxy to one host that packages come from. Username and
// password are for https, the SSH key is for git over SSH; a credential has at least
// one of the two.
type Credential struct {
	// Host is the exact host, with its port if that is not the scheme's usual one. No
	// other host or port gets the credential. Required.
	Host string `yaml:"host"`

	// Username goes with Password. Many forges accept any name with a token. Default:
	// empty.
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
	// ~/.ssh/known_hosts. Required with SSHKeyFile: modproxy does not connect to a
	// host that is not in it. Default: empty.
	KnownHostsFile string `yaml:"known_hosts_file"`

	// Scopes are whose modules may be fetched with it: registry.example.com/acme,
	// where either part may be *. A publisher of a module says where its package is.
	// Without scopes, any publisher of a registry that may be asked can have what the
	// credential opens fetched as a module, and read it if he may read that module.
	// Default: empty, for any module.
	Scopes []string `yaml:"scopes"`
}

// Cache is how long answers are kept, and how many packages.
type Cache struct {
	// Fresh is how long an answer about versions and locations is served without
	// asking upstream again. Default: 5m.
	Fresh time.Duration `yaml:"fresh"`

	// MaxStale is how old such an answer may become while upstream is in trouble. It
	// is at least Fresh. Default: 720h (30 days).
	MaxStale time.Duration `yaml:"max_stale"`

	// Missing is how long "upstream has no such module or version" is remembered.
	// Default: 30s.
	Missing time.Duration `yaml:"missing"`

	// MaxSize is the total size of kept packages, including those being written. Least
	// recently used packages go first; they are fetched again when a client asks for
	// them, and must be the same then. A package larger than this is refused. What is
	// being fetched is unpacked beside them, and does not count; what was set aside as
	// evidence does. Default: 0B, unlimited.
	MaxSize ByteSize `yaml:"max_size"`

	// Pinned are the scopes whose packages stay, whatever MaxSize says:
	// registry.example.com/acme, where either part may be *. Default: none.
	Pinned []string `yaml:"pinned"`

	// MaxVersions is the total size of kept versions documents, compressed. Those of
	// modules without a kept package go first, least recently requested first. 0B:
	// unlimited. Default: 256MiB.
	MaxVersions ByteSize `yaml:"max_versions"`

	// Memory is the memory that kept answers may take; what does not fit is read from
	// disk. Default: 64MiB.
	Memory ByteSize `yaml:"memory"`
}

// Ledger is the record of what versions contained when they were first seen.
type Ledger struct {
	// Recheck is the interval in which every recorded version from git is checked
	// again, one after the other, for moved tags. A version that is no longer at the
	// recorded commit is fetched and compared. At least 1m. Default: 0s, never.
	Recheck time.Duration `yaml:"recheck"`
}

// Fetch limits the fetching of packages. A package over a limit is refused, never cut.
type Fetch struct {
	// Timeout is how long the fetch of one package may take. Default: 15m.
	Timeout time.Duration `yaml:"timeout"`

	// AtOnce is how many packages are fetched at the same time; further ones wait. One
	// namespace of a registry gets three quarters at most, and an eighth is reserved
	// for namespaces that have none. Default: 8.
	AtOnce int `yaml:"at_once"`

	// MaxReceived is how many bytes may arrive for one package, before decompression.
	// Default: 1GiB.
	MaxReceived ByteSize `yaml:"max_received"`

	// MaxUnpacked is the total size of the files of one package. Default: 2GiB.
	MaxUnpacked ByteSize `yaml:"max_unpacked"`

	// MaxFiles is how many files, links and directories one package may have.
	// Default: 100000.
	MaxFiles int `yaml:"max_files"`

	// StrictNames refuses packages with names that some file system takes for the
	// same, which differ only in case, in composed characters, or in what Windows
	// drops from a name. Otherwise such names are kept and noted. Default: false.
	StrictNames bool `yaml:"strict_names"`
}

// Log is what is written to standard error.
type Log struct {
	// Level is the lowest level that is written: debug, info, warn or error. Default:
	// info.
	Level string `yaml:"level"`
}

// Default has the value of every key that is not set.
func Default() *Config {
	return &Config{
		Listen:    "127.0.0.1:8080",
		Auth:      Auth{SignedPaths: time.Hour},
		Data:      "modproxy-data",
		Upstreams: []Upstream{{Host: "registry.terraform.io"}, {Host: "registry.opentofu.org"}},
		Cache:     Cache{Fresh: 5 * time.Minute, MaxStale: 720 * time.Hour, Missing: 30 * time.Second, MaxVersions: 256 * MiB, Memory: 64 * MiB},
		Fetch: Fetch{
			Timeout: 15 * time.Minute, AtOnce: 8,
			MaxReceived: 1024 * MiB, MaxUnpacked: 2048 * MiB, MaxFiles: 100_000,
		},
		Limits:   Limits{Connections: 4096, Requests: 1024},
		Log:      Log{Level: "info"},
		Shutdown: 30 * time.Second,
	}
}
