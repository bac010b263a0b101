package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/modproxy/modproxy/config"
)

// verbFlags are the flags of keys that a verb has. A verb that is not here has "data".
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

// addConfigFlags adds the flags of keys to every verb below root.
func addConfigFlags(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		addConfigFlags(cmd)
	}
	_, verb, _ := strings.Cut(root.CommandPath(), " ")
	wanted, ok := verbFlags[verb]
	switch {
	case !ok && root.HasSubCommands(): // each of them has its own
		return
	case !ok:
		wanted = []string{"data"}
	case wanted == nil:
		return
	}
	set := root.Flags()
	set.String("config", "", "configuration `file` (MODPROXY_CONFIG)")
	named := strings.NewReplacer("{", "`", "}", "`") // as pflag wants it
	for _, k := range config.Keys() {
		switch usage := named.Replace(k.Usage); {
		case k.Flag == "" || !slices.Contains(wanted, k.Flag) && wanted[0] != "*":
		case k.Bool:
			set.Bool(k.Flag, false, usage)
		default:
			set.String(k.Flag, "", usage)
		}
	}
}

// file returns the configuration file that was given by flag, or an empty string.
func (f *configFlags) file() string { return f.set.Lookup("config").Value.String() }

// changed returns the flags of keys that were given.
func (f *configFlags) changed() []config.Flag {
	var given []config.Flag
	for _, k := range config.Keys() {
		if flag := f.set.Lookup(k.Flag); flag != nil && flag.Changed {
			given = append(given, config.Flag{Name: k.Flag, Value: flag.Value.String()})
		}
	}
	return given
}
