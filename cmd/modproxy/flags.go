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

// withKeys adds --config to cmd, and the flags of the named keys of the configuration. The name "*" means all keys with a flag.
func withKeys(cmd *cobra.Command, names ...string) *cobra.Command {
	cmd.Flags().String("config", "", "configuration `file` (MODPROXY_CONFIG)")
	addKeyFlags(cmd, names...)
	return cmd
}

// addKeyFlags adds the flags of keys to cmd, as withKeys does.
func addKeyFlags(cmd *cobra.Command, names ...string) {
	set := cmd.Flags()
	named := strings.NewReplacer("{", "`", "}", "`") // as pflag expects it
	for _, k := range config.Keys() {
		switch usage := named.Replace(k.Usage); {
		case k.Flag == "" || !slices.Contains(names, k.Flag) && !slices.Contains(names, "*"):
		case k.Bool:
			set.VarPF(new(optional), k.Flag, "", usage).NoOptDefVal = "true"
		default:
			set.String(k.Flag, "", usage)
		}
	}
}

// optional is the value of a flag that may have none. Package config checks it.
type optional string

func (o *optional) String() string { return string(*o) }

func (o *optional) Set(s string) error {
	*o = optional(s)
	return nil
}

// Type makes pflag print the flag like one without a value.
func (*optional) Type() string { return "bool" }

// configFile returns the configuration file of the flag, or of the variable, or the empty string.
func (env *environment) configFile() string {
	return cmp.Or(env.flags.Lookup("config").Value.String(), env.variable("MODPROXY_CONFIG"))
}

// keyFlags returns the given flags of keys.
func (env *environment) keyFlags() (given []config.Flag) {
	for _, k := range config.Keys() {
		if flag := env.flags.Lookup(k.Flag); flag != nil && flag.Changed {
			given = append(given, config.Flag{Name: k.Flag, Value: flag.Value.String()})
		}
	}
	return given
}

// arguments returns an error for fewer or more arguments than a verb takes.
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

// flagError rewrites an error of pflag in the style of the other messages.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var bad *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		if before := cmd.Flags().Args(); cmd.HasSubCommands() && len(before) > 0 && !takesArguments(cmd) {
			return unknownVerb(cmd, before) // the flag belongs to the misspelt verb
		}
		return unknownFlag(cmd, unknown)
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

// takesArguments reports whether a command with verbs can run without one.
func takesArguments(cmd *cobra.Command) bool { return cmd.Args(cmd, []string{""}) == nil }

// unknownFlag returns an error for a flag that cmd does not have. It suggests a flag with a similar name.
func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	name := err.GetSpecifiedName()
	help := fmt.Sprintf(`"%s --help" lists the flags`, cmd.CommandPath())
	dashes := "--"
	if err.GetSpecifiedShortnames() != "" {
		dashes = "-"
	} else if meant := hint.Within(maxEdits, name, names); meant != "" {
		help = fmt.Sprintf("did you mean --%s?", meant)
	}
	return hint.With(fmt.Errorf("%s has no flag %.80s", cmd.CommandPath(), dashes+name), help)
}

// addFlag adds a flag that parse reads into v. Errors of parse need not name the flag.
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

// parseFile reads the name of a file. An empty name is an error: it comes from an unset variable and would count as no file.
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
