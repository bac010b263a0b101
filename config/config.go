// Package config reads and checks the configuration of modproxy.
//
//	c, err := config.Load("modproxy.yaml", os.Environ(), flags)
//
// [Config] is the table of all keys. A key is its path in the file: the field Fresh of Cache is cache.fresh. The field, its
// tags and its comment are the only source of the key's variable MODPROXY_CACHE_FRESH, its flag if it has one, its default, the
// output of "modproxy config", and config.example.yaml.
//
// Three functions read a configuration:
//
//   - [Read] parses each value. It reports all values that are not well formed.
//   - [Load] calls Read and, if that has no mistake, checks whether the values fit together. It then reports all such mistakes.
//   - [Check] makes both steps even if the first has mistakes, and reports all mistakes of both.
//
// Invariants: flags override variables, variables override the file, and the file overrides the defaults, key by key.
// Reading is strict. An unknown key, variable or value is an error that names its place. No error shows a value that may be secret.
// Files have a maximum size, and YAML has no aliases. A Config is not changed after it was loaded.
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
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/policy"
)

// Config is the configuration. The tag "default" is the value of a key that is not set, "check" has the rules for it,
// "words" its allowed values, "flag" and "usage" describe its flag, and "example" is for entries of lists, which have no default. Durations and sizes have units
// (30s, 5m, 720h; 512KiB, 64MiB, 50GiB). A relative path starts at the working directory of modproxy.
type Config struct {
	// Listen is the address and port on which modproxy accepts connections. Without an address (":8080") it listens on all
	// addresses of this machine; port 0 takes any free port. On any address but a loopback address, clients need a credential
	// ("modproxy token create"), unless "anonymous: true". On a loopback address without credentials, modproxy answers only
	// requests for its own known hostnames.
	Listen string `yaml:"listen" default:"127.0.0.1:8080" flag:"listen" usage:"{address} and port to accept connections on"`
	// PublicURL is the http or https URL of this proxy for clients, if it differs from the one on which it listens:
	// https://modules.example.com. It may have a path. Unless its host is a loopback address or localhost, clients need a
	// credential.
	PublicURL string `yaml:"public_url" check:"url" flag:"public-url" usage:"{URL} that clients use for this proxy"`
	// Contact is where people get help after a denial or an error: "platform team, #modules". Every error that clients print
	// names it.
	Contact string `yaml:"contact" check:"line"`
	// TrustedProxies are the addresses or networks (10.0.0.0/8) of reverse proxies whose headers X-Forwarded-For, -Host and
	// -Proto are trusted, or Forwarded if a request has no X-Forwarded-* header. The reverse proxies must overwrite these
	// headers if clients send them. If any is set, clients need a credential.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// Anonymous are the scopes whose modules and providers are readable without a credential by everyone who can connect:
	// [registry.terraform.io/*], where either part may be *. For all other modules and providers, clients need a credential,
	// also on a loopback address. The value true turns authentication off, on any address and behind reverse proxies: everyone
	// can read every module that this proxy can read.
	Anonymous Anonymous `yaml:"anonymous" flag:"anonymous" usage:"turn authentication off on every address, or with =registry.terraform.io/* for these scopes only"`
	Auth      Auth      `yaml:"auth"`
	// Data is the directory for everything that modproxy stores: ledger, index, packages. It is created if it is missing.
	Data string `yaml:"data" default:"modproxy-data" check:"required" flag:"data" usage:"{directory} for the cache, the ledger and all other data"`
	TLS  TLS    `yaml:"tls"`
	// Upstreams are the registries that modproxy may contact. The first one with a name is the default for modules requested
	// under this proxy's own hostname.
	Upstreams []Upstream `yaml:"upstreams" default:"[{host: registry.terraform.io}, {host: registry.opentofu.org}]" check:"required"`
	// Routes are the upstreams for single namespaces, for modules requested under this proxy's own hostname.
	Routes []Route `yaml:"routes"`
	// Modules are your own modules: addresses, and the repositories whose tags are their versions. The first entry that matches an
	// address counts. Their namespaces are reserved: no public registry is asked about them.
	Modules []Module `yaml:"modules"`
	// ModulesHost is the host in the addresses of modules: modules.example.com, with its port if that is not 443. The ledger, scopes
	// and lock files have it, so it cannot change later. The default is the host of public_url.
	ModulesHost string `yaml:"modules_host"`
	// Webhooks are requests by which a git forge reports a push: modproxy then reads the tags of the repository at once, instead of after
	// cache.fresh. They need modules.
	Webhooks []Webhook `yaml:"webhooks"`
	Egress   Egress    `yaml:"egress"`
	// Credentials are the credentials for hosts from which packages are downloaded. These may differ from the registries.
	Credentials []Credential `yaml:"credentials"`
	// Sources are mirrors of forges: instead of from, modproxy downloads modules from to. The first entry that matches a location
	// counts, and its result is not replaced again. A location with a mirror is never downloaded from its forge.
	Sources   []Source  `yaml:"sources"`
	Cache     Cache     `yaml:"cache"`
	Ledger    Ledger    `yaml:"ledger"`
	Policy    Policy    `yaml:"policy"`
	Fetch     Fetch     `yaml:"fetch"`
	Providers Providers `yaml:"providers"`
	Rewrite   Rewrite   `yaml:"rewrite"`
	Bundle    Bundle    `yaml:"bundle"`
	Limits    Limits    `yaml:"limits"`
	// Mirror is what modproxy downloads before a client requests it, at the start and periodically, as "modproxy mirror"
	// does.
	Mirror []Mirror `yaml:"mirror"`
	// Offline makes this proxy answer from its stored data and contact no other server: no registry, no forge, no issuer, no
	// name server. Nothing is evicted, because it could not be downloaded again.
	Offline bool `yaml:"offline" flag:"offline" usage:"serve only cached data, and send no requests to other servers"`
	Log     Log  `yaml:"log"`
	// Shutdown is the time limit for running requests and downloads after SIGTERM or SIGINT.
	Shutdown time.Duration `yaml:"shutdown" default:"30s" check:"positive"`

	file    string                  // that c was read from; may be empty
	sources map[string]string       // by path
	unsound map[string]bool         // top-level keys with a wrong value; "": the whole file is unreadable
	again   func() (*Config, error) // reads the configuration again; nil: without a file, or if it cannot be read twice
	open    func(name string) (*os.File, error)
}

// Anonymous is what clients may read without a credential: true, false or scopes.
type Anonymous struct {
	// All turns authentication off: everything is readable without a credential.
	All bool
	// Scopes are readable without a credential. Credentials may allow more.
	Scopes auth.Scopes
}

// MarshalYAML returns a as the configuration has it.
func (a Anonymous) MarshalYAML() (any, error) {
	if len(a.Scopes) > 0 {
		return a.Scopes, nil
	}
	return a.All, nil
}

// Auth is the authentication of clients. A token of "modproxy token create" or of an issuer may read the modules of its scopes.
type Auth struct {
	// Required requires a credential on a loopback address without a reverse proxy, too.
	Required bool `yaml:"required"`
	// SignedPaths is the minimum time for which the signed path of a package is valid; the maximum is twice that. Clients
	// download packages at such a path without their token. The path of a revoked token ends at once. From 1m to 168h.
	SignedPaths time.Duration `yaml:"signed_paths" default:"1h" check:"positive"`
	// Issuers are identity providers and CI systems whose tokens are accepted, by OpenID Connect. Their keys are fetched over
	// https, within the limits of egress.
	Issuers []oidc.Issuer `yaml:"issuers"`
}

// TLS is the certificate of this proxy and its private key. Without them, it speaks plain HTTP.
type TLS struct {
	// CertFile is a PEM file with the certificate, followed by its intermediates.
	CertFile string `yaml:"cert_file" flag:"tls-cert" usage:"PEM {file} with the certificate and its intermediates"`
	// KeyFile is a PEM file with the certificate's private key.
	KeyFile string `yaml:"key_file" flag:"tls-key" usage:"PEM {file} with the certificate's private key"`
}

// Upstream is a registry that modproxy may contact.
type Upstream struct {
	// Host is the registry's hostname, with its port if that is not 443. It is the first part of a module's source address. "*"
	// means any registry; clients request its modules at the path /registry.example.com/v1/modules/.
	Host string `yaml:"host" example:"registry.acme.example" check:"host,unique"`
	// Modules is the registry's modules.v1 base URL, instead of service discovery. modproxy does not start if egress refuses it.
	Modules string `yaml:"modules" check:"url"`
	// Providers is the registry's providers.v1 base URL, instead of service discovery.
	Providers string `yaml:"providers" check:"url"`
	// Docs is the base URL of an API that describes the registry's modules and providers in its place. No token is sent there.
	// For registry.opentofu.org the default is https://api.opentofu.org, unless modules or providers is set.
	Docs string `yaml:"docs" check:"url"`
	// Private hides the modules and providers of this registry from clients whose scopes do not cover them: they do not exist
	// for such clients. A registry with a token is private. For other registries, clients learn that their scopes do not cover
	// a module.
	Private bool `yaml:"private"`
	// Token is sent as a bearer token to this registry only.
	Token egress.Secret `yaml:"token"`
	// TokenFile is a file with the token, instead of token. A newline at its end is removed.
	TokenFile string `yaml:"token_file" example:"/run/secrets/registry-token"`
	// Rate is the maximum number of requests per second to this registry; 0 means 100. Beyond it, clients are told to retry later.
	Rate int `yaml:"rate" check:"natural"`
}

// Route sends a namespace to an upstream.
type Route struct {
	// Namespace is a namespace, as in module addresses. Spellings that differ in case have the same route, unless they have
	// routes of their own.
	Namespace string `yaml:"namespace" example:"acme" check:"unique"`
	// Upstream is the host of one of the upstreams.
	Upstream string `yaml:"upstream" example:"registry.acme.example" check:"host"`
}

// Module maps an address, or all addresses of a pattern, to the tags of a repository.
type Module struct {
	// Address is namespace/name/system, without a host. The name may be {name}, and the system {system}: then the entry is for all
	// modules of the namespace whose name and system have only lower-case letters, digits, - and _.
	Address string `yaml:"address" example:"\"corp/{name}/{system}\""`
	// Source is the git or OCI repository, as in a module call, without a query and without a subdirectory. {name} and {system} may be
	// in its path.
	Source string `yaml:"source" example:"\"git::https://git.example.com/corp/terraform-{system}-{name}.git\""`
	// Path is the directory of the module in the repository. Without it, the module is the root directory. It may have {name} and
	// {system}.
	Path string `yaml:"path" example:"\"\""`
	// Tags is the form of the tags that are versions, with {version} and, in a repository with several modules, with {name} and
	// {system}: "{system}/{name}/v{version}". Without it, tags are v1.2.3 or 1.2.3. A version has three numbers. A tag of an OCI
	// repository has no slash and no +.
	Tags string `yaml:"tags" example:"v{version}"`
}

// Webhook is a webhook of GitHub, GitLab, Gitea, Forgejo or Bitbucket.
type Webhook struct {
	// ID is the end of the URL to set at the forge: https://modules.example.com/-/hooks/ID. It has letters, digits, - and _.
	ID string `yaml:"id" example:"github" check:"unique"`
	// Secret is the secret to set at the forge; at GitLab, the secret token or the signing token. It is required, here or in a file.
	Secret egress.Secret `yaml:"secret"`
	// SecretFile is a file with the secret, instead of secret. A newline at its end is removed.
	SecretFile string `yaml:"secret_file" example:"/run/secrets/webhook"`
}

// Egress is the limit on outgoing connections. Connections to loopback, private and other special-purpose addresses are
// refused, regardless of the name that resolves to them.
type Egress struct {
	// Allow are exceptions: internal hostnames and addresses, with or without a port, and networks (git.corp.example,
	// 10.1.2.3:8443, 10.0.0.0/8). Without a port, an exception applies to every port. Only these destinations are allowed over
	// http.
	Allow []string `yaml:"allow"`
	// Ports are the allowed TCP ports in addition to 443; git over SSH needs 22.
	Ports []int `yaml:"ports"`
	// ProxyNames makes modproxy send hostnames to the http or https proxy of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, which looks
	// them up. Otherwise modproxy looks them up and sends the proxy an allowed address, or a hostname that is in allow.
	ProxyNames bool `yaml:"proxy_names"`
	// CAFile is a PEM file of certificate authorities to trust in addition to those of the system.
	CAFile string `yaml:"ca_file"`
	// Hedging sends a request a second time, in parallel, if the response has not begun after one to three seconds; the first
	// response counts. Turn it off for a server that counts or charges for requests.
	Hedging bool `yaml:"hedging" default:"true"`
}

// Credential identifies this proxy to one host of packages. Username and password are for https and for OCI registries, the SSH key is
// for git over SSH. A credential has at least one of the two.
type Credential struct {
	// Host is the exact host, with its port if that is not the scheme's default. No other host or port receives the credential.
	Host string `yaml:"host" example:"git.example.com" check:"host,unique"`
	// Username is the name that belongs to the password. Many forges accept any name with a token.
	Username string `yaml:"username" example:"modproxy"`
	// Password is a password or an access token.
	Password egress.Secret `yaml:"password"`
	// PasswordFile is a file with the password, instead of password. A newline at its end is removed.
	PasswordFile string `yaml:"password_file" example:"/run/secrets/git-token"`
	// TokenHost is a second host that receives username and password: that of the token service of the OCI registry at host, if the
	// registry names one at another host, as registry.gitlab.com names gitlab.com.
	TokenHost string `yaml:"token_host" example:"gitlab.com"`
	// SSHKeyFile is a private key without passphrase, for git over SSH, in a file that only its owner can read.
	SSHKeyFile string `yaml:"ssh_key_file" example:"/run/secrets/git-key"`
	// KnownHostsFile is a file with the allowed keys of the host, in the form of ~/.ssh/known_hosts. modproxy does not connect
	// to a host that is not in it.
	KnownHostsFile string `yaml:"known_hosts_file" example:"/etc/modproxy/known_hosts"`
	// Scopes are the modules whose packages may be downloaded with the credential: registry.example.com/acme, where either part
	// may be *. The publisher of a module chooses the location of its package. Without scopes, the publisher of any module of
	// an upstream can therefore make modproxy download, as a module, anything that the credential opens, and can read it with
	// access to that module.
	Scopes auth.Scopes `yaml:"scopes" example:"[registry.example.com/acme]"`
}

// Source is a mirror of a part of a forge.
type Source struct {
	// From is the host, with its port if that is not the scheme's default, and the path of a repository or an archive, for locations
	// of every getter and scheme. The last segment may be *, for everything below the path. The path is compared with case; .git
	// at its end does not matter.
	From string `yaml:"from" example:"github.com/acme/*" check:"required"`
	// To is the host and path of the mirror, with * at the end if from has it. The scheme is https, unless it is written:
	// ssh://git@git.example.com:2222/mirrors/acme/*. Credentials are those of this host, and egress has to allow it.
	To string `yaml:"to" example:"git.example.com/mirrors/acme/*" check:"required"`
}

// Mirrors returns the mirrors of sources. They were checked when the configuration was loaded.
func (c *Config) Mirrors() (all fetch.Mirrors) {
	for _, s := range c.Sources {
		if m, err := fetch.ParseMirror(s.From, s.To); err == nil {
			all = append(all, m)
		}
	}
	return all
}

// Cache is how long modproxy stores answers, and how many packages.
type Cache struct {
	// Fresh is how long a list of versions is served without a new request to upstream.
	Fresh time.Duration `yaml:"fresh" default:"5m" check:"positive"`
	// MaxStale is the maximum age of such a list while upstream is unavailable or slow. It must not be less than fresh. Without such a
	// list, modproxy lists the versions whose packages are stored.
	MaxStale time.Duration `yaml:"max_stale" default:"720h" check:"positive"`
	// Missing is how long "upstream has no such module or version" and a failed download are cached. A temporary error is
	// cached for two seconds. An error in content that cannot change, at a commit or with a checksum, is cached for a day.
	Missing time.Duration `yaml:"missing" default:"30s" check:"positive"`
	// MaxSize is the maximum total size of stored packages (50GiB), including those being written; 0B means unlimited. The
	// least recently used packages are evicted first, and those that their registry no longer lists last. An evicted package is
	// downloaded again when a client requests it, and must have the same content. A package larger than max_size is refused.
	// Unpacked files of downloads in progress do not count; packages in quarantine do.
	MaxSize ByteSize `yaml:"max_size" check:"natural"`
	// Pinned are the scopes whose packages are never evicted, regardless of max_size: registry.example.com/acme, where either
	// part may be *.
	Pinned auth.Scopes `yaml:"pinned"`
	// MaxVersions is the maximum total size of stored versions documents, compressed; 0B means unlimited. Documents of modules
	// without a stored package are evicted first, the least recently requested ones before others. Other documents of
	// registries about modules have a limit of the same size, and so have the descriptions that modproxy reads in packages.
	MaxVersions ByteSize `yaml:"max_versions" default:"256MiB" check:"natural"`
	// Memory is the maximum memory for packages; further ones are read from disk.
	Memory ByteSize `yaml:"memory" default:"64MiB" check:"positive"`
	// ReadAhead prefetches the modules of registries that a package calls, and those that these call. It begins when a client
	// has received the location of a package that must be downloaded, because the client will request them next. Modules that
	// the client may not read are not prefetched. Nothing is, unless max_size and the disk have room for a package of
	// fetch.max_unpacked in addition to the stored ones.
	ReadAhead bool `yaml:"read_ahead" default:"true"`
}

// Ledger is the record of the content of each version at its first download.
type Ledger struct {
	// Recheck is the interval in which every recorded version from git is checked for a moved tag, one after the other: for
	// example 24h. A version at another commit than the recorded one is downloaded and compared. At least 1m; 0s means never.
	Recheck time.Duration `yaml:"recheck"`
}

// Policy is the set of rules about versions of modules. Deny wins over allow, allows add up, and the order of rules does not
// matter. Denied versions are not requested from upstream, not downloaded, not listed and not served, even if they are stored.
type Policy struct {
	// Default is the result for versions that match no rule: allow or deny.
	Default string `yaml:"default" words:"allow,deny" default:"allow"`
	// Mode is enforce, or audit. With audit, only reserved namespaces are enforced; other denials are logged and counted, and
	// the version is allowed.
	Mode string `yaml:"mode" words:"enforce,audit" default:"enforce"`
	// Denied is hide or list. With hide, denied versions are not listed. A client with a range of versions then chooses an
	// allowed one, and a client that wants exactly a denied one reports that the version does not exist. With list, denied
	// versions are listed, and clients print the reason for the denial, also over HTTP/2; a client with a range may then choose
	// a denied version and fail. Reserved namespaces are never listed.
	Denied string `yaml:"denied" words:"hide,list" default:"hide"`
	// Contact is the old name of the key contact at the top of the configuration, which takes precedence if both are set.
	Contact string `yaml:"contact" check:"line"`
	// FirstContact is how min_age treats versions that were already listed when modproxy first saw their module, if the
	// registry gives no date for them: wait counts their age from that time, and allow allows them at once. A module with a
	// listed version in the ledger was seen before, and its other versions wait.
	FirstContact string `yaml:"first_contact" words:"wait,allow" default:"wait"`
	// Reserved are namespaces of your own, where * matches any text (acme, acme-*). Their modules and providers are never
	// requested from the public registries, registry.terraform.io and registry.opentofu.org, but only from the registry of
	// their route, or without a route from the other upstreams. A search text that contains such a name is not sent to the
	// public registries. Audit mode does not change this.
	Reserved []string `yaml:"reserved"`
	// Rules are allow and deny rules. modproxy reads the policy again when this file or a file that it names changes, and on
	// SIGHUP. If the new policy contains a mistake, the old one stays in force.
	Rules []PolicyRule `yaml:"rules"`
	// Files are YAML files with further rules and reserved namespaces, under the keys rules and reserved. Each has at most
	// 4MiB.
	Files []string `yaml:"files"`
}

// PolicyRule allows or denies versions. It has one of allow, deny and allow_locked.
type PolicyRule struct {
	// Allow are modules, as host/namespace/name/system. In each segment * matches any text; case does not matter.
	Allow policy.Pattern `yaml:"allow" example:"registry.terraform.io/terraform-aws-modules/*/aws"`
	// Deny are modules that are denied, even if another rule allows them.
	Deny policy.Pattern `yaml:"deny"`
	// AllowLocked are lock files of "modproxy lock": their modules, versions and contents are allowed. In a file's name, *
	// matches any text without a slash; at least one file must exist.
	AllowLocked []string `yaml:"allow_locked"`
	// Versions is a version constraint as in a module call. A pre-release is allowed only by its exact version, and denied
	// together with its release. An exact version allows only the build that it names: 1.0.0 does not allow 1.0.0+2. It denies
	// all builds.
	Versions modproxy.Constraint `yaml:"versions" example:"\">= 5.0.0, != 5.1.2\""`
	// MinAge is the time for which a version must have been listed before it is allowed.
	MinAge time.Duration `yaml:"min_age" example:"7d"`
	// Groups are the groups of clients, or the names of their tokens, to which the rule applies.
	Groups []string `yaml:"groups" example:"[infra]"`
	// Approval is required if every version needs "modproxy approve".
	Approval string `yaml:"approval" words:"required" example:"required"`
	// Reason is the text for users when the rule denies a version.
	Reason string `yaml:"reason"`
}

// Fetch is the limit on downloads of packages. A package over a limit is refused, never truncated.
type Fetch struct {
	// Timeout is the time limit for the download of one package.
	Timeout time.Duration `yaml:"timeout" default:"15m" check:"positive"`
	// AtOnce is the number of packages that are downloaded at the same time; further ones wait. One namespace of a registry
	// gets at most three quarters of them, and an eighth is reserved for namespaces without a download. While others wait, a
	// download slower than 16 KiB/s for 30s ends. A download that receives nothing for 3s lends its slot to others until data
	// arrives; after its clients have left, it ends after 10s.
	AtOnce int `yaml:"at_once" default:"8" check:"positive"`
	// MaxCPU is the processor time that one git process may use for one package; not on Windows.
	MaxCPU time.Duration `yaml:"max_cpu" default:"5m" check:"positive"`
	// MaxReceived is the number of bytes that may be received for one package, before decompression.
	MaxReceived ByteSize `yaml:"max_received" default:"1GiB" check:"positive"`
	// MaxUnpacked is the maximum total size of the files of one package.
	MaxUnpacked ByteSize `yaml:"max_unpacked" default:"2GiB" check:"positive"`
	// MaxFiles is the maximum number of files, links and directories of one package.
	MaxFiles int `yaml:"max_files" default:"100000" check:"positive"`
	// StrictNames refuses packages with names that are not UTF-8, and with names that some file systems treat as equal: they
	// differ only in case, in composed characters, or in characters that Windows drops. Otherwise such packages are stored, and
	// "modproxy ls" reports the names.
	StrictNames bool `yaml:"strict_names"`
}

// Providers are limits on downloads of providers, and rules for their signatures.
type Providers struct {
	// Timeout is the time limit for the download of the package for one platform.
	Timeout time.Duration `yaml:"timeout" default:"30m" check:"positive"`
	// AtOnce is the number of packages that are downloaded at the same time, in addition to those of modules and shared in the
	// same way. OpenTofu 1.12 and newer installs several providers at once.
	AtOnce int `yaml:"at_once" default:"4" check:"positive"`
	// MaxReceived is the maximum size of the package for one platform.
	MaxReceived ByteSize `yaml:"max_received" default:"1GiB" check:"positive"`
	// MaxUnpacked is the maximum total size of the files of one package.
	MaxUnpacked ByteSize `yaml:"max_unpacked" default:"2GiB" check:"positive"`
	// Platforms are the platforms for which "modproxy mirror", and mirror, download packages. If none is set: that of the
	// machine.
	Platforms []Platform `yaml:"platforms" example:"[linux_amd64, darwin_arm64]"`
	// Unsigned are the scopes whose providers are accepted without a signature, as long as no release of the provider was ever
	// signed: registry.example.com/acme, where either part may be *.
	Unsigned auth.Scopes `yaml:"unsigned" example:"[registry.example.com/*]"`
	// OtherNames are the scopes whose signed files may have other names than
	// terraform-provider-{type}_{version}_{os}_{arch}.zip: registry.example.com/acme, where either part may be *. Their
	// registry can serve a signed file as another version, or for another platform.
	OtherNames auth.Scopes `yaml:"other_names" example:"[registry.example.com/acme]"`
	// Keys are the keys that may sign new releases of some providers; the first entry that matches a provider applies. For all
	// other providers, the key of the first release that modproxy has recorded applies.
	Keys Signers `yaml:"keys"`
}

// Signer names the keys that may sign the releases of providers.
type Signer struct {
	// Provider is host/namespace/type. In each segment * matches any text; case does not matter.
	Provider policy.Pattern `yaml:"provider" example:"registry.terraform.io/hashicorp/*"`
	// Fingerprints are those of the primary keys, 40 or 64 hexadecimal digits.
	Fingerprints []string `yaml:"fingerprints" example:"[C874011F0AB405110D02105534365D9472D7468F]"`
}

// Signers is the list of the configured signers.
type Signers []Signer

// Signers returns the keys that may sign the releases of m. If no entry matches m, ok is false.
func (all Signers) Signers(m modproxy.Address) (keys modproxy.Keys, ok bool) {
	i := slices.IndexFunc(all, func(s Signer) bool { return s.Provider.Match(m) })
	if i < 0 {
		return "", false
	}
	keys, _ = modproxy.NewKeys(all[i].Fingerprints...) // checked when the configuration was loaded
	return keys, true
}

// Rewrite is what modproxy changes in packages.
type Rewrite struct {
	// Nested also downloads the git and https sources of modules that packages call, and replaces these sources in packages by
	// addresses of this proxy below public_url. The called modules are downloaded together with the package, and their content
	// never changes afterwards. If one of them is not available, the package is refused. The packages, and their sums, differ
	// from those of their authors.
	Nested bool `yaml:"nested"`
}

// Bundle is which bundles "modproxy import" accepts.
type Bundle struct {
	// Keys are the verifier keys of the ledgers whose bundles are accepted. "modproxy ledger key" prints the key where the
	// bundles are exported.
	Keys []string `yaml:"keys"`
}

// Mirror is what is mirrored: one of dir, list and lock.
type Mirror struct {
	// Dir is the directory of a configuration. Everything that the configuration installs is downloaded.
	Dir string `yaml:"dir" example:"/srv/infrastructure/live"`
	// Client is the client for which the configuration in dir is read: terraform, tofu or both. Without it, the lock file or
	// the names of the files in dir determine the client, or else it is the client that installs most through this proxy.
	Client string `yaml:"client" words:"terraform,tofu,both" example:"tofu"`
	// List is a file with a module address in each line, or one with a version constraint: ADDRESS@CONSTRAINT.
	List string `yaml:"list"`
	// Lock is a file of "modproxy lock". Only its entries are downloaded.
	Lock string `yaml:"lock"`
	// Platforms are the platforms for which packages of providers are downloaded. If none is set: those of providers.platforms.
	Platforms []Platform `yaml:"platforms" example:"[linux_amd64]"`
	// Every is the pause between the end of a mirror run and the next one. If it is not set: 24h. At least 1m.
	Every time.Duration `yaml:"every" example:"24h"`
}

// Name returns the name of m for people.
func (m Mirror) Name() string { return cmp.Or(m.Dir, m.List, m.Lock) }

// Interval returns Every, or its default if it is not set.
func (m Mirror) Interval() time.Duration { return cmp.Or(m.Every, 24*time.Hour) }

// Limits are limits on clients. Requests over a limit wait, or are told to retry later.
type Limits struct {
	// Connections is the maximum number of open connections. For a further one, the longest idle one is closed, or else the
	// further one waits. The system's limit of open files can lower it.
	Connections int `yaml:"connections" default:"4096" check:"positive"`
	// Requests is the maximum number of concurrent requests, including those that wait for a download.
	Requests int `yaml:"requests" default:"1024" check:"positive"`
	// Rate is the maximum number of requests per second of one client; 0 means unlimited. A client is identified by its token,
	// or else by its address.
	Rate int `yaml:"rate" check:"natural"`
}

// Log is the log on standard error.
type Log struct {
	// Level is the lowest level that is logged: debug, info, warn or error.
	Level string `yaml:"level" words:"debug,info,warn,error" default:"info" flag:"log-level" usage:"lowest {level} to log: debug, info, warn, error"`
}
