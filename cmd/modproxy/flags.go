package main

import "github.com/spf13/pflag"

// keyFlags are the keys that are important enough for a flag of their own.
var keyFlags = []struct{ name, key, usage string }{
	{"listen", "listen", "`address` and port to accept connections on"},
	{"public-url", "public_url", "`URL` under which clients see this proxy"},
	{"anonymous", "anonymous", "ask nobody who they are, wherever it listens"},
	{"data", "data", "`directory` of everything that is kept"},
	{"tls-cert", "tls.cert_file", "PEM `file` with the certificate and its intermediates"},
	{"tls-key", "tls.key_file", "PEM `file` with the certificate's private key"},
	{"offline", "offline", "answer from what is kept, never ask anybody"},
	{"log-level", "log.level", "least `level` to write: debug, info, warn, error"},
}

// configFlags are the flags that every verb has.
type configFlags struct{ set *pflag.FlagSet }

// flagValue is a flag that was given.
type flagValue struct{ name, key, value string }

func addConfigFlags(set *pflag.FlagSet) *configFlags {
	set.String("config", "", "configuration `file` (MODPROXY_CONFIG)")
	for _, f := range keyFlags {
		switch f.key {
		case "anonymous", "offline":
			set.Bool(f.name, false, f.usage)
		default:
			set.String(f.name, "", f.usage)
		}
	}
	return &configFlags{set}
}

// file is the configuration file that was given by flag, or empty.
func (f *configFlags) file() string { return f.set.Lookup("config").Value.String() }

// changed are the flags that were given, in the order of keyFlags.
func (f *configFlags) changed() []flagValue {
	var given []flagValue
	for _, k := range keyFlags {
		if flag := f.set.Lookup(k.name); flag.Changed {
			given = append(given, flagValue{k.name, k.key, flag.Value.String()})
		}
	}
	return given
}
