package doctor

import "slices"

// Severity is how much a problem matters.
type Severity string

const (
	Error   Severity = "error"   // clients fail, or will fail
	Warning Severity = "warning" // clients may fail, or something is less safe than it should be
)

// Kind is a kind of findings.
type Kind struct {
	Name     string
	Severity Severity
	Meaning  string // for the reference
	Remedy   string // SUBJECT means the subject of the finding
}

// Kinds returns all kinds, in the order of the report.
func Kinds() []Kind { return slices.Clone(kinds) }

func kindOf(name string) Kind {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	return kinds[i] // a test makes a finding of every kind
}

var kinds = []Kind{
	{"configuration", Error, "a mistake in the configuration", `correct it; "modproxy config check" prints the mistakes, and "modproxy config" the values in force`},
	{"configuration_doubtful", Warning, "a setting that is deprecated or has no effect", `correct it; "modproxy config" prints the values in force with their sources`},

	{"data_refused", Error, "the data directory cannot be used as one", "name another directory with the key data, or with --data"},
	{"data_unwritable", Error, "this user cannot write to the data directory", "run modproxy, and this command, as the owner of SUBJECT, or correct its owner and mode"},
	{"data_read_only", Warning, "the data directory is on a read-only file system, and modproxy is not offline", "mount the file system for writing, or set offline: true"},
	{"data_owner", Error, "files in the data directory belong to another user than the directory", "stop modproxy; then: chown -R, to give all files the owner of the directory"},
	{"data_network", Warning, "the data directory is on a network file system", "use a directory on a local disk: locks and flushes of the index depend on it"},
	{"disk_full", Error, "the file system of the data directory has almost no space", `make room: "modproxy gc --max-size SIZE" removes packages, and cache.max_size bounds them`},
	{"inodes_full", Error, "the file system of the data directory has no free inode", `"modproxy gc --max-size SIZE" removes packages; "df -i" shows inodes`},
	{"cache_too_large", Warning, "cache.max_size is larger than the file system", "set cache.max_size to less than the size of the file system"},
	{"cache_unbounded", Warning, "nothing bounds the packages of a proxy for other machines", "set cache.max_size, for example to 50GiB"},
	{"index_damaged", Error, "the index is missing or damaged", `stop modproxy; then: modproxy rebuild`},
	{"ledger_damaged", Error, "the ledger is damaged", `restore the backup of the directory SUBJECT`},
	{"ledger_missing", Error, "packages are stored, and the ledger has no record", `restore the backup of the directory SUBJECT; a new ledger would accept changed content`},
	{"offline_empty", Error, "modproxy is offline, and nothing is stored", `"modproxy import" brings a bundle; or set offline: false`},
	{"not_ready", Error, "the running proxy reports that it cannot do its work", "read the log of the proxy; restart it when the cause is gone"},

	{"tokens_damaged", Error, "the file of tokens cannot be read, so no token is valid", "restore the backup of SUBJECT, or remove it and create new tokens"},
	{"no_token", Warning, "clients need a token, and none is valid", `create one: modproxy token create NAME --scope '*'`},

	{"git_missing", Error, "git is not in PATH, or cannot be executed", "install git 2.31 or newer, or put it in PATH of modproxy"},
	{"git_unusable", Error, "git is too old, or does not answer", "install git 2.31 or newer"},

	{"open_files", Warning, "the limit of open files is too low for limits.connections", `raise it ("ulimit -n", or LimitNOFILE= of the service), or lower limits.connections`},

	{"clock", Error, "the clock of this machine differs from those of the registries", "set the clock, and let it follow a time server (NTP)"},

	{"port_in_use", Error, "another program listens on the address of the key listen", "end that program, or choose another port with the key listen"},
	{"listen_denied", Error, "this user may not listen on the address", "choose a port above 1023, or give modproxy the capability CAP_NET_BIND_SERVICE"},
	{"listen_address", Error, "this machine does not have the address of the key listen", "choose an address of this machine, or none, as in :8080"},
	{"public_url_missing", Warning, "other machines can connect, and the URL for them is not known", "set public_url to the URL that clients use"},
	{"unencrypted", Warning, "clients send their tokens unencrypted", "set tls.cert_file and tls.key_file, or set public_url to the https URL of a reverse proxy"},

	{"certificate_files", Error, "the certificate and its key cannot be used", "correct tls.cert_file and tls.key_file: PEM files of a certificate and its key, readable for modproxy"},
	{"certificate_expired", Error, "the certificate has expired", "renew it, and replace the file; modproxy uses the new one within two seconds"},
	{"certificate_expires", Warning, "the certificate expires within a week", "renew it, and replace the file; modproxy uses the new one within two seconds"},
	{"certificate_early", Error, "the certificate is not valid yet", "wait, use another certificate, or correct the clock of this machine"},
	{"certificate_name", Error, "the certificate is for another name than that of the URL", "use a certificate with the name in the URL, or correct the URL"},
	{"certificate_incomplete", Error, "the chain of certificates does not lead to a trusted authority", "append the missing intermediate certificates to the file of the certificate; if the authority is private, name its certificate in SSL_CERT_FILE, here and for clients"},
	{"certificate_untrusted", Error, "the certificate, or its authority, is not trusted here", "name the certificate of the authority in SSL_CERT_FILE, here and for clients"},

	{"name_unresolved", Error, "the hostname of the URL has no address", "add the name to the DNS, or correct the URL"},
	{"url_unreachable", Error, "no connection to the URL is possible", "check that modproxy runs, and the firewall, the reverse proxy and the proxy variables on the way to SUBJECT"},
	{"url_other", Error, "another program than modproxy answers at the URL", "correct the URL, or the reverse proxy, which must pass all paths on to modproxy"},

	{"proxy_variable", Error, "a proxy variable is not the URL of a proxy", "set it to http://host:port, or with https, socks5 or socks5h, or unset it"},
	{"proxy_conflict", Warning, "two spellings of a proxy variable have different values", "give both the same value, or unset one"},
	{"proxy_unreachable", Error, "the proxy in a variable does not answer", "correct the variable, or start the proxy"},
	{"no_proxy", Warning, "requests to an internal address go through the proxy", "add the host to NO_PROXY"},

	{"upstream_name", Error, "the hostname of an upstream has no address", "correct upstreams[].host, or the name server of this machine; behind a proxy that looks names up, set egress.proxy_names: true"},
	{"upstream_refused", Error, "egress does not allow the connection to an upstream", "if the destination is right, add SUBJECT to egress.allow"},
	{"upstream_certificate", Error, "the certificate of an upstream is not trusted", "if its authority is private, name the certificate of the authority in egress.ca_file"},
	{"upstream_credentials", Error, "an upstream denies access", "set upstreams[].token or token_file of SUBJECT to a valid token"},
	{"upstream_portal", Error, "something else than a registry answers, such as the login page of a network", "log in to the network, correct upstreams[].host, or correct the proxy on the way"},
	{"upstream_no_modules", Error, "the host of an upstream offers neither modules nor providers", "correct upstreams[].host, or set upstreams[].modules to the base URL"},
	{"upstream_unavailable", Error, "an upstream does not answer, or answers with an error", "check the connection of this machine, and the state of the registry; until then modproxy serves stored packages"},

	{"client_syntax", Error, "the file is not a CLI configuration", `correct it, or print a new one: "modproxy client-config"`},
	{"client_ignored", Warning, "clients read another file", "unset TF_CLI_CONFIG_FILE, or set it to this file"},
	{"client_bypasses", Error, "clients request modules from the registries directly", `add the host blocks that "modproxy client-config" prints`},
	{"client_url", Error, "a host block does not lead to this proxy", `replace the block by that of "modproxy client-config"`},
	{"client_service", Warning, "a host block has too few services, or too many", `keep the services that "modproxy client-config" prints: without providers.v1 the host has no providers, and others would receive the token`},
	{"client_mirror", Error, "a network mirror has a URL that clients refuse", `use the https URL that "modproxy client-config --providers mirror" prints`},
	{"client_no_token", Error, "the proxy requires a token, and the client has none for the host", `add a block: credentials "SUBJECT" { token = "mp_…" }; "modproxy token create" creates a token`},
	{"client_token", Error, "the token of the client is not valid", `create another token with "modproxy token create", and replace it in the credentials block for SUBJECT`},
	{"client_scope", Error, "the scopes of the client's token cover nothing of the host", `create a token with the scope: modproxy token create NAME --scope 'SUBJECT/*'`},

	{"unfinished", Error, "a check did not end", "a disk or a name server does not answer: check the mounts and the network of this machine"},
}
