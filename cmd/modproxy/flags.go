package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/modproxy/modproxy/config"
)

// keyFlags are the keys that are important enough for a flag of their own.
var keyFlags = []struct{ name, key, usage string }{
	{"listen", "listen", "`address` and port to accept connections on"},
	{"public-url", "public_url", "`URL` under which clients see this proxy"},
	{"anonymous", "anonymous", "turn authentication off, wherever it listens"},
	{"data", "data", "`directory` for everything that is kept"},
	{"tls-cert", "tls.cert_file", "PEM `file` with the certificate and its intermediates"},
	{"tls-key", "tls.key_file", "PEM `file` with the certificate's private key"},
	{"offline", "offline", "answer from what is kept, ask no registry or forge"},
	{"log-level", "log.level", "lowest `level` to write: debug, info, warn, error"},
}

// verbFlags are the keyFlags of a verb. One that is not here looks into the data
// directory, and has "data".
var verbFlags = map[string][]string{
	"serve":         {"*"},
	"config":        {"*"},
	"config check":  {"*"},
	"client-config": {"listen", "public-url", "anonymous", "tls-cert", "tls-key"},
	"health":        {"listen", "tls-cert", "tls-key"},
	"refresh":       {"data", "offline"},
	"token create":  {"data", "listen", "public-url", "tls-cert", "tls-key"},
	"help":          nil,
	"version":       nil,
}

// configFlags are the flags of a verb.
type configFlags struct{ set *pflag.FlagSet }

// addConfigFlags gives every verb below root the flags of the keys that concern it.
func addConfigFlags(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		addConfigFlags(cmd)
	}
	_, verb, _ := strings.Cut(root.CommandPath(), " ")
	wanted, ok := verbFlags[verb]
	switch {
	case !ok && root.HasSubCommands(): // of which each has its own
		return
	case !ok:
		wanted = []string{"data"}
	case wanted == nil:
		return
	}
	set := root.Flags()
	set.String("config", "", "configuration `file` (MODPROXY_CONFIG)")
	for _, f := range keyFlags {
		switch {
		case !slices.Contains(wanted, f.name) && wanted[0] != "*":
		case f.key == "anonymous" || f.key == "offline":
			set.Bool(f.name, false, f.usage)
		default:
			set.String(f.name, "", f.usage)
		}
	}
}

// file is the configuration file that was given by flag, or empty.
func (f *configFlags) file() string { return f.set.Lookup("config").Value.String() }

// changed are the flags that were given, in the order of keyFlags.
func (f *configFlags) changed() []config.Flag {
	var given []config.Flag
	for _, k := range keyFlags {
		if flag := f.set.Lookup(k.name); flag != nil && flag.Changed {
			given = append(given, config.Flag{Name: k.name, Key: k.key, Value: flag.Value.String()})
		}
	}
	return given
}
