// Package config reads the configuration of modproxy.
//
// [Config] is the table of all keys. A key is its path in the file: the field Fresh of Cache is cache.fresh. Its
// variable MODPROXY_CACHE_FRESH, its flag if it has one, its default, what "modproxy config" prints and
// config.example.yaml are derived from the field, its tags and its comment; no other place repeats them.
//
// Flags win over variables, variables over the file, and the file over the defaults, key by key. Reading is strict:
// an unknown key, variable or value is an error that names its place, all of them at once, and never shows a value
// that may be a secret. Files are bounded in size, and YAML has no aliases.
package config

import (
	"cmp"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/auth/oidc"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/policy"
)

// Config is the configuration. The tag "default" has the value of a key that is not set, "check" the rules for it,
// and "flag" and "usage" its flag; "example" is for entries of lists, which have no default. Durations and sizes
// have units (30s, 5m, 720h; 512KiB, 64MiB, 50GiB). A relative path starts at the working directory of modproxy.
type Config struct {
	// Listen is the address and port to accept connections on. Without an address (":8080"), all addresses of this
	// machine; port 0 takes any free one. On any but a loopback address clients have to show a credential
	// ("modproxy token create"), unless "anonymous: true". Where they do not have to on a loopback address,
	// requests are answered only under names that this proxy is known by.
	Listen string `yaml:"listen" default:"127.0.0.1:8080" flag:"listen" usage:"{address} and port to accept connections on"`
	// PublicURL is the http or https URL under which clients see this proxy, if it differs from the one it listens
	// on: https://modules.example.com. It may have a path. Unless its host is a loopback address or localhost,
	// clients have to show a credential.
	PublicURL string `yaml:"public_url" check:"url" flag:"public-url" usage:"{URL} under which clients see this proxy"`
	// Contact is whom people ask who are denied something, or get an error: "platform team, #modules". It stands in every error
	// that clients print.
	Contact string `yaml:"contact" check:"line"`
	// TrustedProxies are the addresses or networks (10.0.0.0/8) of the reverse proxies whose X-Forwarded-For,
	// -Host and -Proto headers count, or Forwarded if a request has no X-Forwarded-* header. They must overwrite
	// the headers that they set when clients send them. If any is set, clients have to show a credential.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// Anonymous are the scopes whose modules and providers everyone who can connect can read, without a credential:
	// [registry.terraform.io/*], where either part may be *. For anything else clients have to show one, on a loopback
	// address, too. With true instead, authentication is off, on any address and behind reverse proxies: everyone can
	// read every module that this proxy can.
	Anonymous Anonymous `yaml:"anonymous" flag:"anonymous" usage:"turn authentication off, wherever it listens, or with =registry.terraform.io/* for what such scopes cover"`
	Auth      Auth      `yaml:"auth"`
	// Data is the directory for everything that is kept: ledger, index, packages. It is created if it is missing.
	Data string `yaml:"data" default:"modproxy-data" check:"required" flag:"data" usage:"{directory} for everything that is kept"`
	TLS  TLS    `yaml:"tls"`
	// Upstreams are the registries that may be asked. The first with a name is the default for modules requested
	// under this proxy's own hostname.
	Upstreams []Upstream `yaml:"upstreams" default:"[{host: registry.terraform.io}, {host: registry.opentofu.org}]" check:"required"`
	// Routes are the upstreams that answer for one namespace each, for modules requested under this proxy's own
	// hostname.
	Routes []Route `yaml:"routes"`
	Egress Egress  `yaml:"egress"`
	// Credentials are for the hosts that packages are fetched from, which may differ from the registries.
	Credentials []Credential `yaml:"credentials"`
	Cache       Cache        `yaml:"cache"`
	Ledger      Ledger       `yaml:"ledger"`
	Policy      Policy       `yaml:"policy"`
	Fetch       Fetch        `yaml:"fetch"`
	Providers   Providers    `yaml:"providers"`
	Rewrite     Rewrite      `yaml:"rewrite"`
	Bundle      Bundle       `yaml:"bundle"`
	Limits      Limits       `yaml:"limits"`
	// Mirror is what is fetched before anybody asks for it, at the start and again after some time, as by "modproxy mirror".
	Mirror []Mirror `yaml:"mirror"`
	// Offline makes this proxy answer from what it has and ask nobody: no registry, no forge, no issuer, no name server.
	// Nothing is evicted then, as nothing would bring it back.
	Offline bool `yaml:"offline" flag:"offline" usage:"answer from what is kept, and ask nobody"`
	Log     Log  `yaml:"log"`
	// Shutdown is how long running requests and fetches may take after SIGTERM or SIGINT.
	Shutdown time.Duration `yaml:"shutdown" default:"30s" check:"positive"`

	file    string                  // that it was read from; may be empty
	sources map[string]string       // by path
	unsound map[string]bool         // keys at the top with a wrong value; "" if that is all of the file
	again   func() (*Config, error) // reads it once more; nil if it was not read, or cannot be
	open    func(name string) (*os.File, error)
}

// Anonymous says what clients may read without a credential: true, false or scopes.
type Anonymous struct {
	// All is everything: nobody is asked for a credential.
	All bool
	// Scopes are what anybody may read, beside what others show a credential for.
	Scopes auth.Scopes
}

// MarshalYAML returns what the configuration has for a.
func (a Anonymous) MarshalYAML() (any, error) {
	if len(a.Scopes) > 0 {
		return a.Scopes, nil
	}
	return a.All, nil
}

// Auth says which clients may ask. A token that "modproxy token create" made, or that an issuer signed, may read what
// its scopes say.
type Auth struct {
	// Required requires a credential on a loopback address with nothing in front, too.
	Required bool `yaml:"required"`
	// SignedPaths is the minimum time for which the path of a package is valid; the maximum is twice that. Clients
	// fetch packages by it without their token. It ends at once with a revoked token. From 1m to 168h.
	SignedPaths time.Duration `yaml:"signed_paths" default:"1h" check:"positive"`
	// Issuers are identity providers and CI systems whose tokens are accepted, by OpenID Connect. Their keys are
	// fetched by https, within the limits of egress.
	Issuers []oidc.Issuer `yaml:"issuers"`
}

// TLS is the certificate of this proxy and its private key. Without them, it speaks plain HTTP.
type TLS struct {
	// CertFile is a PEM file: the certificate, then its intermediates.
	CertFile string `yaml:"cert_file" flag:"tls-cert" usage:"PEM {file} with the certificate and its intermediates"`
	// KeyFile is a PEM file with the certificate's private key.
	KeyFile string `yaml:"key_file" flag:"tls-key" usage:"PEM {file} with the certificate's private key"`
}

// Upstream is a registry that may be asked.
type Upstream struct {
	// Host is the registry's hostname, with its port if that is not 443: the first part of a module's source
	// address. "*" stands for any registry; a client asks for it by the path /registry.example.com/v1/modules/.
	Host string `yaml:"host" example:"registry.acme.example" check:"host,unique"`
	// Modules is the registry's modules.v1 base URL, instead of service discovery.
	Modules string `yaml:"modules" check:"url"`
	// Providers is the registry's providers.v1 base URL, instead of service discovery.
	Providers string `yaml:"providers" check:"url"`
	// Docs is the base URL of an API that describes its modules and providers in the registry's place. No token is
	// sent there. For registry.opentofu.org the default is https://api.opentofu.org, unless modules or providers is
	// set.
	Docs string `yaml:"docs" check:"url"`
	// Private hides the modules and providers of this registry from clients whose scopes do not cover them: they do not exist for
	// such clients. A registry with a token is private. Of others clients are told that their scopes do not cover them.
	Private bool `yaml:"private"`
	// Token is sent as a bearer token to this registry only.
	Token egress.Secret `yaml:"token"`
	// TokenFile is a file to read the token from, instead; a newline at its end is cut.
	TokenFile string `yaml:"token_file" example:"/run/secrets/registry-token"`
	// Rate is the maximum number of questions a second to this registry; 0 means 100. A client with a question too
	// many is told to come back.
	Rate int `yaml:"rate" check:"natural"`
}

// Route sends a namespace to an upstream.
type Route struct {
	// Namespace is a namespace, as in module addresses. Its spellings in another case lead there, too, unless they have
	// routes of their own.
	Namespace string `yaml:"namespace" example:"acme" check:"unique"`
	// Upstream is the host of one of the upstreams.
	Upstream string `yaml:"upstream" example:"registry.acme.example" check:"host"`
}

// Egress limits what outgoing connections may reach. Loopback, private and other special-purpose addresses are
// refused, whatever name leads to them.
type Egress struct {
	// Allow are internal hostnames and addresses, with or without a port, and networks (git.corp.example,
	// 10.1.2.3:8443, 10.0.0.0/8) that may be reached; without a port, on every port. Only these may be reached by
	// http.
	Allow []string `yaml:"allow"`
	// Ports are the allowed TCP ports besides 443; git over SSH needs 22.
	Ports []int `yaml:"ports"`
	// ProxyNames makes the proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names by http or https look names up.
	// Otherwise modproxy looks them up, and asks the proxy for an address that may be reached, or for a hostname
	// in allow.
	ProxyNames bool `yaml:"proxy_names"`
	// CAFile is a PEM file of certificate authorities to trust besides those of the system.
	CAFile string `yaml:"ca_file"`
	// Hedging sends a request a second time, beside the first, when its answer has not begun after one to three
	// seconds; the first answer counts. Turn it off for a server that counts or charges for requests.
	Hedging bool `yaml:"hedging" default:"true"`
}

// Credential identifies this proxy to one host that packages come from. Username and password are for https, the
// SSH key is for git over SSH; a credential has at least one of the two.
type Credential struct {
	// Host is the exact host, with its port if that is not the scheme's usual one. No other host or port gets the
	// credential.
	Host string `yaml:"host" example:"git.example.com" check:"host,unique"`
	// Username goes with the password, for https. Many forges accept any name with a token.
	Username string `yaml:"username" example:"modproxy"`
	// Password is a password or an access token.
	Password egress.Secret `yaml:"password"`
	// PasswordFile is a file to read the password from, instead; a newline at its end is cut.
	PasswordFile string `yaml:"password_file" example:"/run/secrets/git-token"`
	// SSHKeyFile is a private key without passphrase, for git over SSH, in a file that only its owner can read.
	SSHKeyFile string `yaml:"ssh_key_file" example:"/run/secrets/git-key"`
	// KnownHostsFile has the keys that the host may show, in the form of ~/.ssh/known_hosts. modproxy does not
	// connect to a host that is not in it.
	KnownHostsFile string `yaml:"known_hosts_file" example:"/etc/modproxy/known_hosts"`
	// Scopes are whose modules may be fetched with it: registry.example.com/acme, where either part may be *. A
	// publisher of a module says where its package is. Without scopes, any publisher of a registry that may be
	// asked can have what the credential opens fetched as a module, and read it if he may read that module.
	Scopes auth.Scopes `yaml:"scopes" example:"[registry.example.com/acme]"`
}

// Cache says how long answers are kept, and how many packages.
type Cache struct {
	// Fresh is how long an answer about versions and locations is served without asking upstream again.
	Fresh time.Duration `yaml:"fresh" default:"5m" check:"positive"`
	// MaxStale is how old such an answer may become while upstream is in trouble. It is at least fresh. Without such an
	// answer, the versions whose packages are stored are listed.
	MaxStale time.Duration `yaml:"max_stale" default:"720h" check:"positive"`
	// Missing is how long "upstream has no such module or version" is remembered.
	Missing time.Duration `yaml:"missing" default:"30s" check:"positive"`
	// MaxSize is the total size of kept packages (50GiB), including those being written; 0B means unlimited. Least
	// recently used packages go first, those that their registry lists no more last; they are fetched again when a
	// client asks for them, and must be the same then. A package larger than this is refused. What is being fetched is unpacked beside them, and does not
	// count; what was set aside as evidence does.
	MaxSize ByteSize `yaml:"max_size" check:"natural"`
	// Pinned are the scopes whose packages stay, whatever max_size says: registry.example.com/acme, where either
	// part may be *.
	Pinned auth.Scopes `yaml:"pinned"`
	// MaxVersions is the total size of kept versions documents, compressed; 0B means unlimited. Those of modules
	// without a kept package go first, least recently requested first. What else registries tell about
	// modules has a bound of the same size, and so has what modproxy reads in packages.
	MaxVersions ByteSize `yaml:"max_versions" default:"256MiB" check:"natural"`
	// Memory is the memory that packages may take; what does not fit is read from disk.
	Memory ByteSize `yaml:"memory" default:"64MiB" check:"positive"`
	// ReadAhead has the modules of registries fetched that a package calls, and those that these call, as soon as a client
	// was told of a package that had to be fetched: it is about to ask for them. What the client may not have is not
	// fetched, nor is anything unless max_size and the disk have room for a package of fetch.max_unpacked beside what is kept.
	ReadAhead bool `yaml:"read_ahead" default:"true"`
}

// Ledger is the record of what versions contained when they were first seen.
type Ledger struct {
	// Recheck is the interval in which every recorded version from git is checked again, one after the other, for
	// moved tags: 24h, say. A version that is no longer at the recorded commit is fetched and compared. At least
	// 1m; 0s means never.
	Recheck time.Duration `yaml:"recheck"`
}

// Policy says which versions of modules may be used. Deny wins over allow, allows add up, and the order of rules does not
// matter. What is refused is not asked for upstream, not fetched, not listed and not served, also when it is kept.
type Policy struct {
	// Default is what happens to versions that no rule is about: allow or deny.
	Default string `yaml:"default" default:"allow"`
	// Mode is enforce, or audit: nothing is refused but what is reserved, and what would be is logged and counted.
	Mode string `yaml:"mode" default:"enforce"`
	// Denied is hide or list. With hide, denied versions are not listed: a client with a range of versions chooses an allowed
	// one, and a client that wants exactly a denied one says that there is no such version. With list, denied versions are
	// listed, and clients print why their download is denied, also behind HTTP/2; a range may then choose a denied version, and
	// fail. Reserved namespaces are never listed.
	Denied string `yaml:"denied" default:"hide"`
	// Contact is the old name of the key contact at the top of the configuration, which counts if both are set.
	Contact string `yaml:"contact" check:"line"`
	// FirstContact is what min_age means for versions that were listed already when their module was met, if the
	// registry gives no date for them: wait that long from then on, or allow. A module of which the ledger has a listed
	// version was met before, and its other versions wait.
	FirstContact string `yaml:"first_contact" default:"wait"`
	// Reserved are namespaces of your own, in which * stands for anything (acme, acme-*). Neither modules nor providers
	// in them are asked for at the public registries, registry.terraform.io and registry.opentofu.org, but only at the
	// registry that a route names for them, or if there is none, at the other upstreams. A search with the name of one is not
	// sent there. So it is in audit mode, too.
	Reserved []string `yaml:"reserved"`
	// Rules are allow and deny rules. The policy is read again when this file changes, or one that it names, and on
	// SIGHUP. If there is a mistake in it then, it stays as it was.
	Rules []PolicyRule `yaml:"rules"`
	// Files are YAML files with further rules, and reserved namespaces, under the keys rules and reserved. Each has 4MiB
	// at most.
	Files []string `yaml:"files"`
}

// PolicyRule allows or denies versions. It has one of allow, deny and allow_locked.
type PolicyRule struct {
	// Allow are modules, as host/namespace/name/system. In each segment * stands for anything; case does not count.
	Allow policy.Pattern `yaml:"allow" example:"registry.terraform.io/terraform-aws-modules/*/aws"`
	// Deny are modules that are refused whatever allows them.
	Deny policy.Pattern `yaml:"deny"`
	// AllowLocked are lock files that "modproxy lock" wrote: their modules, versions and contents are allowed. In the
	// name of a file * stands for anything but a slash; there has to be one.
	AllowLocked []string `yaml:"allow_locked"`
	// Versions is a version constraint as in a module call. A pre-release is allowed only by its exact version, and
	// denied with its release. An exact version allows the one build that it names, which for 1.0.0 is not 1.0.0+2, and
	// denies all builds.
	Versions modproxy.Constraint `yaml:"versions" example:"\">= 5.0.0, != 5.1.2\""`
	// MinAge is how long a version was listed before it may be used.
	MinAge time.Duration `yaml:"min_age" example:"7d"`
	// Groups are for whom the rule is: groups of clients, or the names of their tokens.
	Groups []string `yaml:"groups" example:"[infra]"`
	// Approval is required if every version waits for "modproxy approve".
	Approval string `yaml:"approval" example:"required"`
	// Reason is what users are told when the rule denies.
	Reason string `yaml:"reason"`
}

// Fetch limits the fetching of packages. A package over a limit is refused, never cut.
type Fetch struct {
	// Timeout is how long the fetch of one package may take.
	Timeout time.Duration `yaml:"timeout" default:"15m" check:"positive"`
	// AtOnce is how many packages are fetched at the same time; further ones wait. One namespace of a registry
	// gets three quarters at most, and an eighth is reserved for namespaces that have none.
	AtOnce int `yaml:"at_once" default:"8" check:"positive"`
	// MaxCPU is how much processor time one process of git may use for one package; not on Windows.
	MaxCPU time.Duration `yaml:"max_cpu" default:"5m" check:"positive"`
	// MaxReceived is how many bytes may arrive for one package, before decompression.
	MaxReceived ByteSize `yaml:"max_received" default:"1GiB" check:"positive"`
	// MaxUnpacked is the total size of the files of one package.
	MaxUnpacked ByteSize `yaml:"max_unpacked" default:"2GiB" check:"positive"`
	// MaxFiles is how many files, links and directories one package may have.
	MaxFiles int `yaml:"max_files" default:"100000" check:"positive"`
	// StrictNames refuses packages with names that some file system takes for the same, which differ only in case,
	// in composed characters, or in what Windows drops from a name, or that are not UTF-8. Otherwise such names are
	// kept, and "modproxy ls" notes them.
	StrictNames bool `yaml:"strict_names"`
}

// Providers limits the fetching of providers, and says which need no signature.
type Providers struct {
	// Timeout is how long the fetch of the package for one platform may take.
	Timeout time.Duration `yaml:"timeout" default:"30m" check:"positive"`
	// AtOnce is how many packages are fetched at the same time, beside those of modules and shared as those are.
	AtOnce int `yaml:"at_once" default:"4" check:"positive"`
	// MaxReceived is how many bytes the package for one platform may have.
	MaxReceived ByteSize `yaml:"max_received" default:"1GiB" check:"positive"`
	// MaxUnpacked is the total size of the files of one package.
	MaxUnpacked ByteSize `yaml:"max_unpacked" default:"2GiB" check:"positive"`
	// Platforms are those for which "modproxy mirror", and mirror, fetch packages: that of the machine if none is set.
	Platforms []Platform `yaml:"platforms" example:"[linux_amd64, darwin_arm64]"`
	// Unsigned are whose providers are taken without a signature, as long as none of that provider was ever signed:
	// registry.example.com/acme, where either part may be *.
	Unsigned auth.Scopes `yaml:"unsigned" example:"[registry.example.com/*]"`
	// OtherNames are whose signed files may have other names than terraform-provider-{type}_{version}_{os}_{arch}.zip:
	// registry.example.com/acme, where either part may be *. Their registry can serve what was signed as another version, or for
	// another platform.
	OtherNames auth.Scopes `yaml:"other_names" example:"[registry.example.com/acme]"`
	// Keys are the keys that may sign releases which are not recorded yet, for some providers; the first entry that stands
	// for a provider counts. For all others it is the key that has signed the first release which modproxy has seen.
	Keys Signers `yaml:"keys"`
}

// Signer is who may sign the releases of providers.
type Signer struct {
	// Provider is host/namespace/type. In each segment * stands for anything; case does not count.
	Provider policy.Pattern `yaml:"provider" example:"registry.terraform.io/hashicorp/*"`
	// Fingerprints are those of the primary keys, 40 or 64 hexadecimal digits.
	Fingerprints []string `yaml:"fingerprints" example:"[C874011F0AB405110D02105534365D9472D7468F]"`
}

// Signers are several of them.
type Signers []Signer

// Signers returns the keys that may sign the releases of m, and whether all says that.
func (all Signers) Signers(m modproxy.Address) (keys modproxy.Keys, ok bool) {
	i := slices.IndexFunc(all, func(s Signer) bool { return s.Provider.Match(m) })
	if i < 0 {
		return "", false
	}
	keys, _ = modproxy.NewKeys(all[i].Fingerprints...) // they were checked
	return keys, true
}

// Rewrite says what is changed in packages.
type Rewrite struct {
	// Nested has the git and https sources of modules that packages call fetched too, and serves packages in which they
	// are addresses of this proxy, below public_url. What a package calls is fetched with it, and stays what it was then;
	// a package is refused if it cannot be had. Packages are not what their authors made, nor are their sums.
	Nested bool `yaml:"nested"`
}

// Bundle says which bundles "modproxy import" takes.
type Bundle struct {
	// Keys are the verifier keys of the ledgers whose bundles are taken. "modproxy ledger key" prints one where the
	// bundles are made.
	Keys []string `yaml:"keys"`
}

// Mirror is what is mirrored: one of dir, list and lock.
type Mirror struct {
	// Dir is the directory of a configuration, of which all that it installs is fetched.
	Dir string `yaml:"dir" example:"/srv/infrastructure/live"`
	// Client is the client that the configuration in dir is read for: terraform, tofu or both. Without it, the lock file or
	// the names of the files in dir show the client, or else it is the one that installs most through this proxy.
	Client string `yaml:"client" example:"tofu"`
	// List is a file with a module address in each line, or one with a version constraint: ADDRESS@CONSTRAINT.
	List string `yaml:"list"`
	// Lock is a file that "modproxy lock" wrote. What it lists is fetched, and nothing else.
	Lock string `yaml:"lock"`
	// Platforms are those for which the packages of providers are fetched: those of providers.platforms if none is set.
	Platforms []Platform `yaml:"platforms" example:"[linux_amd64]"`
	// Every is how long after a mirror has ended it begins again: 24h if it is not set, and at least 1m.
	Every time.Duration `yaml:"every" example:"24h"`
}

// Name names m among the mirrors of a configuration, for people.
func (m Mirror) Name() string { return cmp.Or(m.Dir, m.List, m.Lock) }

// Interval returns the value of Every, or what counts if it is not set.
func (m Mirror) Interval() time.Duration { return cmp.Or(m.Every, 24*time.Hour) }

// Limits are limits on clients. What exceeds a limit waits, or is told to come back.
type Limits struct {
	// Connections is how many connections may be open at a time. Beyond that the longest idle one is closed, or further ones wait.
	Connections int `yaml:"connections" default:"4096" check:"positive"`
	// Requests is how many requests are answered at the same time, including those that wait for a package to be
	// fetched.
	Requests int `yaml:"requests" default:"1024" check:"positive"`
	// Rate is how many requests a second one client may send; 0 means unlimited. A client is a token, or else an
	// address.
	Rate int `yaml:"rate" check:"natural"`
}

// Log is what is written to standard error.
type Log struct {
	// Level is the lowest level that is written: debug, info, warn or error.
	Level string `yaml:"level" default:"info" flag:"log-level" usage:"lowest {level} to write: debug, info, warn, error"`
}
