// Command modproxy is a caching proxy for the module registries of Terraform and OpenTofu.
//
// All verbs read the same configuration (see package config) and end with one of three exit codes: 0 done, 1 failed, 2 misused.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/hint"
)

func main() {
	closure.Child()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// environment is what a verb is given by its process.
type environment struct {
	variables      []string // "NAME=value"
	stdin          io.Reader
	stdout, stderr io.Writer // of texts: a terminal obeys nothing that is in them
	rawOut, rawErr io.Writer // the same, of bytes: bundles, the log, lines that change

	flags             *pflag.FlagSet // of the verb
	server, tokenFile string         // --server and --token-file, of the verbs that operate a proxy
	config            *config.Config // nil until settings has read it
	started           bool           // the command line was valid
}

// load reads the configuration and checks it. The error is a [config.Error].
func (env *environment) load() (*config.Config, error) {
	return config.Load(env.configFile(), env.variables, env.keyFlags())
}

// run runs a command line without its program's name, and returns the exit code, soon after ctx has ended.
func run(ctx context.Context, args, variables []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out, errs := clean.NewWriter(stdout), clean.NewWriter(stderr)
	env := &environment{variables: variables, stdin: stdin, stdout: out, stderr: errs, rawOut: stdout, rawErr: stderr}
	root := newRootCommand(env)
	root.SetArgs(append([]string{}, args...)) // not nil: cobra would read os.Args
	err := root.ExecuteContext(ctx)
	switch {
	case err != nil && !env.started:
		err = misuse{err}
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		err = hint.With(errors.New("ended by a signal before it was done"), hint.Of(err)...)
	}
	_, _ = out.Flush(), errs.Flush()
	if err != nil {
		printError(stderr, err)
	}
	return exitCode(err)
}

func newRootCommand(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "modproxy",
		Short: "A caching proxy for module registries of Terraform and OpenTofu",
		Long: `modproxy keeps modules of Terraform and OpenTofu registries near their users. A
version stays what it contained when modproxy first saw it.

Every key of the configuration can be set in a file, in a variable (cache.fresh is
MODPROXY_CACHE_FRESH), and the most important ones by a flag. Flags win over
variables, and variables over the file. "modproxy config" prints the values in force
and where they were set.

Exit codes: 0 done, 1 failed, 2 the command line or the configuration is wrong.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return hint.With(errors.New("no verb given"), `"modproxy help" lists the verbs`)
			}
			return unknownVerb(cmd, args)
		},
		RunE:             func(*cobra.Command, []string) error { return nil },
		PersistentPreRun: func(cmd *cobra.Command, _ []string) { env.flags, env.started = cmd.Flags(), true },
		Version:          versionText(),
	}
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpCommand(newHelpCommand())
	anywhere := append(newDecisionCommands(env),
		newExportCommand(env), newGCCommand(env), newImportCommand(env), newLsCommand(env), newMirrorCommand(env), newMissingCommand(env),
		newPendingCommand(env), newRefreshCommand(env), newRmCommand(env), newVerifyCommand(env))
	env.addServerFlags(anywhere...)
	root.AddCommand(append(anywhere,
		newConfigCommand(env), newClientConfigCommand(env), newConformanceCommand(env), newHealthCommand(env), newKeyCommand(env), newLedgerCommand(env),
		newLockCommand(env), newPolicyCommand(env), newRebuildCommand(env), newServeCommand(env), newTokenCommand(env), newVersionCommand(env))...)
	addConfigFlags(root)
	return root
}

// isGroup is the annotation of commands that only have verbs.
const isGroup = "group"

// newGroup makes a command that only has verbs.
func newGroup(name, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Long: long,
		Annotations: map[string]string{isGroup: ""},
		Args:        unknownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return misuse{hint.With(errors.New("no verb given"), fmt.Sprintf(`"%s --help" lists the verbs`, cmd.CommandPath()))}
		},
	}
}

// unknownVerb refuses the arguments of a command that has verbs: cobra has found none by that name.
func unknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var verbs []string
	for _, c := range cmd.Commands() {
		verbs = append(verbs, c.Name())
	}
	help := fmt.Sprintf(`"%s --help" lists the verbs`, cmd.CommandPath())
	return hint.With(fmt.Errorf("unknown verb %.80q", args[0]), hint.DidYouMean(args[0], verbs, help))
}

// newHelpCommand replaces cobra's, whose exit code for an unknown verb is 0.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB…]",
		Short: "Print what a verb does and which flags it has",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, unknown, err := cmd.Root().Find(args)
			if err != nil || len(unknown) > 0 {
				return misuse{cmp.Or(err, unknownVerb(found, unknown))}
			}
			found.InitDefaultHelpFlag() // cobra makes it only when a command runs
			return found.Help()
		},
	}
}

// version is set by the linker (-X main.version=v1.2.3) where the source is not in a repository, as for a container.
var version string

// buildVersion returns the version of this program that the linker or Go itself has set, else "(devel)".
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

const platform = runtime.GOOS + "/" + runtime.GOARCH

// versionText returns what "modproxy version" and "modproxy --version" print.
func versionText() string {
	return fmt.Sprintf("modproxy %s (%s, %s)", buildVersion(), runtime.Version(), platform)
}

func newVersionCommand(env *environment) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		RunE: func(*cobra.Command, []string) error {
			all := map[string]string{"version": buildVersion(), "go": runtime.Version(), "platform": platform}
			return env.print(all, "", versionText()+"\n")
		},
	}, `print one JSON document: {"version": …, "go": …, "platform": …}`)
}
