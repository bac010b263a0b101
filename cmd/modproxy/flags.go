package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
)

// verbFlags are the flags of keys that a verb has. A verb that is not here has "data".
var verbFlags = map[string][]string{
	"serve":         {"*"},
	"config":        {"*"},
	"config check":  {"*"},
	"client-config": {"listen", "public-url", "anonymous", "tls-cert", "tls-key"},
	"health":        {"listen", "tls-cert", "tls-key"},
	"lock":          {"data"},
	"missing":       {"data", "offline"},
	"refresh":       {"data", "offline"},
	"conformance":   nil,
	"token create":  {"data", "listen", "public-url", "tls-cert", "tls-key"},
	"help":          nil,
	"version":       nil,
}

// addConfigFlags adds the flags of keys to every verb below root, and no arguments where a verb does not say so.
func addConfigFlags(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		addConfigFlags(cmd)
	}
	if root.Args == nil {
		root.Args = arguments(0, 0)
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
			set.VarPF(new(optional), k.Flag, "", usage).NoOptDefVal = "true"
		default:
			set.String(k.Flag, "", usage)
		}
	}
}

// optional is what a flag says that may stand alone. Package config judges it.
type optional string

func (o *optional) String() string { return string(*o) }

func (o *optional) Set(s string) error {
	*o = optional(s)
	return nil
}

// Type has it printed like a flag that takes no value.
func (*optional) Type() string { return "bool" }

// configFile returns the configuration file that the flag names, or else the variable, or an empty string.
func (env *environment) configFile() string {
	return cmp.Or(env.flags.Lookup("config").Value.String(), env.variable("MODPROXY_CONFIG"))
}

// keyFlags returns the flags of keys that were given.
func (env *environment) keyFlags() (given []config.Flag) {
	for _, k := range config.Keys() {
		if flag := env.flags.Lookup(k.Flag); flag != nil && flag.Changed {
			given = append(given, config.Flag{Name: k.Flag, Value: flag.Value.String()})
		}
	}
	return given
}

// arguments refuses more or fewer arguments than a verb takes.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		want, got := count(least, "argument"), fmt.Sprint(len(args))
		switch n := len(args); {
		case n >= least && n <= most:
			return nil
		case most == 0:
			want, got = "no argument", fmt.Sprintf("%.80q", args[0])
		case least == most:
		case n < least:
			want = "at least " + want
		default:
			want = "at most " + count(most, "argument")
		}
		return hint.With(fmt.Errorf("%s takes %s, and got %s", cmd.CommandPath(), want, got), "usage: "+cmd.UseLine())
	}
}

// flagError returns an error of pflag in the words of the other messages.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var bad *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		name := "-" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() == "" {
			name = "-" + name
		}
		return hint.With(fmt.Errorf("%s has no flag %.80s", cmd.CommandPath(), name),
			hint.DidYouMean(name, names, fmt.Sprintf(`"%s --help" lists the flags`, cmd.CommandPath())))
	case errors.As(err, &bare):
		return fmt.Errorf("--%s wants a value", bare.GetFlag().Name)
	case errors.As(err, &bad):
		why := bad.Unwrap()
		if bad.GetFlag().Value.Type() == "bool" {
			why = fmt.Errorf("want true or false, not %.80q", bad.GetValue())
		}
		return fmt.Errorf("--%s: %w", bad.GetFlag().Name, why)
	}
	return err
}

// addFlag gives cmd a flag that parse reads into v. Its errors need not name the flag.
func addFlag[T any](cmd *cobra.Command, v *T, name, usage string, parse func(string) (T, error)) {
	cmd.Flags().Func(name, usage, func(s string) (err error) {
		*v, err = parse(s)
		return err
	})
}

func parseDuration(s string) (time.Duration, error) {
	d, err := config.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w, not %.80q", err, s)
	case d < 0:
		return 0, errors.New("must not be less than 0")
	}
	return d, nil
}

// parseFile reads the name of a file. An empty one is that of a variable without a value, and would count as none.
func parseFile(s string) (string, error) {
	if s == "" {
		return "", errors.New("the name of a file is empty")
	}
	return s, nil
}

func parseURL(s string) (string, error) { return s, config.CheckURL(s) }

func parseKey(s string) (string, error) {
	_, err := ledger.Verifiers(s)
	return s, err
}
