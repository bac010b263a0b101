package doctor

import "slices"

// Severity is the effect of a problem on clients.
type Severity string

const (
	Error   Severity = "error"   // clients fail, or will fail
	Warning Severity = "warning" // clients may fail, or the set-up is less safe than it should be
)

// Kind describes the findings with one name.
type Kind struct {
	Name     string
	Severity Severity
	Meaning  string // text of docs/reference/doctor.md
	Remedy   string // default of Finding.Remedy; SUBJECT is replaced by the subject of the finding
}

// Kinds returns all kinds, in the order of the report.
func Kinds() []Kind { return slices.Clone(kinds) }

// kindOf returns the kind with a name. It panics for an unknown name.
func kindOf(name string) Kind {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	return kinds[i]
}

var kinds = []Kind{
	{"configuration", Error, "the configuration has a mistake", `correct the mistake; "modproxy config check" prints all mistakes, and "modproxy config" prints the values in force`},
	{"configuration_doubtful", Warning, "a setting is deprecated or has no effect", `change the setting; "modproxy config" prints the values in force with their sources`},

	{"data_refused", Error, "the path is not a usable data directory", "name another directory with the key data, or with --data"},
	{"data_unwritable", Error, "this user cannot write to the data directory", "run modproxy, and this command, as the owner of SUBJECT, or correct its owner and mode"},
	{"data_read_only", Warning, "the data directory is on a read-only file system, and modproxy is not offline", "mount the file system for writing, or set offline: true"},
	{"data_owner", Error, "files in the data directory belong to another user than the directory", "stop modproxy; then: chown -R, to give all files the owner of the directory"},
	{"data_network", Warning, "the data directory is on a network file system", "use a directory on a local disk: locks and flushes of the index depend on it"},
	{"disk_full", Error, "the file system of the data directory has almost no free space", `remove packages with "modproxy gc --max-size SIZE", and set cache.max_size to bound them`},
	{"inodes_full", Error, "the file system of the data directory has no free inode", `remove packages with "modproxy gc --max-size SIZE"; "df -i" prints the inodes`},
	{"cache_too_large", Warning, "cache.max_size is larger than the file system", "set cache.max_size to a size below that of the file system"},
	{"cache_unbounded", Warning, "packages can fill the disk of a proxy for other machines", "set cache.max_size, for example to 50GiB"},
	{"index_damaged", Error, "the index is missing or damaged", `stop modproxy; then: modproxy rebuild`},
	{"ledger_damaged", Error, "the ledger is damaged", `restore the backup of the data directory with "modproxy restore"`},
	{"ledger_missing", Error, "packages are stored, and the ledger has no record", `restore the backup of the data directory with "modproxy restore"; a new ledger would accept changed content`},
	{"modules_host_changed", Error, "own modules have another host than their records in the ledger, and modproxy does not start", "set modules_host to the host in the ledger"},
	{"offline_empty", Error, "modproxy is offline, and nothing is stored", `import a bundle with "modproxy import", or set offline: false`},
	{"not_ready", Error, "the running proxy reports that it cannot do its work", "read the log of the proxy, remove the cause, and restart the proxy"},

	{"tokens_damaged", Error, "the file of tokens cannot be read, and no token is valid", "restore the backup of the data directory, or remove SUBJECT and create new tokens"},
	{"no_token", Warning, "clients need a token, and none is valid", `create a token: modproxy token create NAME --scope '*'`},

	{"git_missing", Error, "git is not in PATH, or cannot be executed", "install git 2.31 or newer, or put it in PATH of modproxy"},
	{"git_unusable", Error, "git is too old, or does not answer", "install git 2.31 or newer"},

	{"open_files", Warning, "the limit of open files is too low for limits.connections", `raise the limit ("ulimit -n", or LimitNOFILE= of the service), or lower limits.connections`},

	{"clock", Error, "the clock of this machine differs from those of the registries", "set the clock, and let it follow a time server (NTP)"},

	{"port_in_use", Error, "another program listens on the address of the key listen", "end that program, or choose another port with the key listen"},
	{"listen_denied", Error, "this user may not listen on the address", "choose a port above 1023, or give modproxy the capability CAP_NET_BIND_SERVICE"},
	{"listen_address", Error, "this machine does not have the address of the key listen", "use an address of this machine, or no address, such as :8080"},
	{"public_url_missing", Warning, "other machines can connect, and modproxy cannot find out their URL for it", "set public_url to the URL that clients use"},
	{"unencrypted", Warning, "clients send their tokens unencrypted", "set tls.cert_file and tls.key_file, or set public_url to the https URL of a reverse proxy"},

	{"certificate_files", Error, "the certificate and its key cannot be used", "correct tls.cert_file and tls.key_file: PEM files of a certificate and its key, readable for modproxy"},
	{"certificate_expired", Error, "the certificate has expired", "renew it, and replace the file; modproxy uses the new one within two seconds"},
	{"certificate_expires", Warning, "the certificate expires within a week", "renew it, and replace the file; modproxy uses the new one within two seconds"},
	{"certificate_early", Error, "the certificate is not valid yet", "wait, use another certificate, or correct the clock of this machine"},
	{"certificate_name", Error, "the certificate does not have the hostname of the URL", "use a certificate with the name in the URL, or correct the URL"},
	{"certificate_incomplete", Error, "the chain of certificates does not lead to a trusted authority", "append the missing intermediate certificates to the file of the certificate; if the authority is private, name its certificate in SSL_CERT_FILE, here and for clients"},
	{"certificate_untrusted", Error, "the certificate, or its authority, is not trusted here", "name the certificate of the authority in SSL_CERT_FILE, here and for clients"},

	{"name_unresolved", Error, "the hostname of the URL has no address", "add the name to the DNS, or correct the URL"},
	{"url_unreachable", Error, "connections to the URL fail", "check that modproxy runs, and the firewall, the reverse proxy and the proxy variables on the way to SUBJECT"},
	{"url_other", Error, "another program than modproxy answers at the URL", "correct the URL, or make the reverse proxy pass on all paths to modproxy"},

	{"proxy_variable", Error, "a proxy variable is not the URL of a proxy", "set the variable to http://host:port (or https, socks5, socks5h), or unset it"},
	{"proxy_conflict", Warning, "the upper-case and lower-case names of a proxy variable have different values", "give both variables the same value, or unset one"},
	{"proxy_unreachable", Error, "the proxy in a variable does not answer", "correct the variable, or start the proxy"},
	{"no_proxy", Warning, "requests to an internal address go through the proxy", "add the host to NO_PROXY"},

	{"upstream_name", Error, "the hostname of an upstream has no address", "correct upstreams[].host, or the name server of this machine; if only the proxy can look up names, set egress.proxy_names: true"},
	{"upstream_refused", Error, "egress does not allow the connection to an upstream", "if the destination is right, add SUBJECT to egress.allow"},
	{"upstream_certificate", Error, "the certificate of an upstream is not trusted", "if its authority is private, name the certificate of the authority in egress.ca_file"},
	{"upstream_credentials", Error, "an upstream denies access", "set upstreams[].token or token_file of SUBJECT to a valid token"},
	{"upstream_portal", Error, "the answer is not from a registry, but for example from the login page of a network", "log in to the network, correct upstreams[].host, or correct the proxy on the way"},
	{"upstream_no_modules", Error, "the host of an upstream offers neither modules nor providers", "correct upstreams[].host, or set upstreams[].modules to the base URL"},
	{"upstream_unavailable", Error, "an upstream does not answer, or answers with an error", "check the connection of this machine, and the state of the registry; meanwhile, modproxy serves stored packages"},

	{"source_unreachable", Error, "the mirror of a forge cannot be reached", "correct sources[].to, the name server of this machine, or the way to SUBJECT; egress.allow and egress.ports have to allow the destination, and egress.ca_file can name a private authority"},
	{"modules_host", Warning, "the host of own modules is an IP address, or means this machine only", "set modules_host to a name of your own domain, before own modules are recorded: it cannot change later"},
	{"modules_elsewhere", Warning, "modules of a namespace of own modules are recorded under another host only", "if these are the same modules, set modules_host to SUBJECT"},
	{"modules_denied", Error, "the repository of an own module denies access", "add a credential for its host to credentials, whose scopes cover SUBJECT"},
	{"modules_unavailable", Error, "the repository of an own module cannot be read", "correct modules[].source, or check the connection of this machine and the state of the git server; meanwhile, modproxy serves stored packages"},
	{"modules_empty", Error, "the repository of an own module does not exist, or no tag of it is a version", `correct modules[].source or modules[].tags; "modproxy modules check SUBJECT" prints the tags`},
	{"modules_ambiguous", Error, "two tags of one version name different commits", "remove the wrong tag; a version that was recorded before is served from its recorded source"},

	{"client_syntax", Error, "the file is not a CLI configuration", `correct the file, or print another one with "modproxy client-config"`},
	{"client_ignored", Warning, "clients read another file", "unset TF_CLI_CONFIG_FILE, or set it to this file"},
	{"client_bypasses", Error, "clients request modules from the registries directly", `add the host blocks that "modproxy client-config" prints`},
	{"client_url", Error, "a host block has another address than that of this proxy", `replace the block by the one that "modproxy client-config" prints`},
	{"client_service", Warning, "a host block misses a service, or has one that is not modproxy's", `use the services that "modproxy client-config" prints: without providers.v1 the host has no providers, and other services receive the token`},
	{"client_mirror", Error, "the URL of a network mirror does not use https", `use the https URL that "modproxy client-config --providers mirror" prints`},
	{"client_no_token", Error, "the proxy requires a token, and the client has no token for the host", `add a block: credentials "SUBJECT" { token = "mp_…" }; "modproxy token create" creates a token`},
	{"client_token", Error, "the token of the client is not valid", `create another token with "modproxy token create", and replace it in the credentials block for SUBJECT`},
	{"client_scope", Error, "the scopes of the client's token do not cover the host", `create a token with the scope: modproxy token create NAME --scope 'SUBJECT/*'`},

	{"unfinished", Error, "a check did not end in time", "check the mounts and the network of this machine: a disk or a name server may not answer"},
}
