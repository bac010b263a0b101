package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
)

// arguments refuses more or fewer arguments than a verb takes.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		n := len(args)
		var err error
		switch {
		case n >= least && n <= most:
			return nil
		case most == 0:
			err = fmt.Errorf("%s takes no argument, and got %.80q", cmd.CommandPath(), args[0])
		case least == most:
			err = fmt.Errorf("%s takes %s, and got %d", cmd.CommandPath(), countArguments(least), n)
		case n < least:
			err = fmt.Errorf("%s takes at least %s, and got %d", cmd.CommandPath(), countArguments(least), n)
		default:
			err = fmt.Errorf("%s takes at most %s, and got %d", cmd.CommandPath(), countArguments(most), n)
		}
		return hint.With(err, "usage: "+cmd.UseLine())
	}
}

func countArguments(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
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
		return fmt.Errorf("--%s: %w, not %.80q", bad.GetFlag().Name, wantedOf(bad.GetFlag()), bad.GetValue())
	}
	return err
}

// wantedOf says what the value of a flag looks like.
func wantedOf(f *pflag.Flag) error {
	switch f.Value.Type() {
	case "duration":
		_, err := config.ParseDuration("")
		return err
	case "bool":
		return errors.New("want true or false")
	}
	return errors.New("want another value")
}

// duration is a flag that [config.ParseDuration] reads.
type duration time.Duration

// Set implements [pflag.Value].
func (d *duration) Set(s string) error {
	parsed, err := config.ParseDuration(s)
	*d = duration(parsed)
	return err
}

// String implements [pflag.Value].
func (d *duration) String() string { return config.FormatDuration(time.Duration(*d)) }

// Type implements [pflag.Value].
func (*duration) Type() string { return "duration" }
