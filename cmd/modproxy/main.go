// Command modproxy is a caching proxy for the module and provider registries of Terraform and OpenTofu.
//
// All verbs read the same configuration (see package config) and end with one of three exit codes: 0 done, 1 failed, 2 misused.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/tfconfig"
)

func main() {
	tfconfig.Child()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go endAtSecond(signals)
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// endAtSecond ends the process at the second signal, as if it did not handle signals. Acknowledged data is on the disk.
func endAtSecond(signals <-chan os.Signal) {
	<-signals
	second := <-signals
	signal.Reset() // a third signal ends the process even if standard error is blocked
	fmt.Fprintf(os.Stderr, "modproxy: a second signal ends it at once: %v\n", second)
	_ = syscall.Kill(os.Getpid(), second.(syscall.Signal)) // this process may signal itself
}

// environment is the environment of a verb: streams, variables, flags.
type environment struct {
	variables      []string // "NAME=value"
	stdin          io.Reader
	stdout, stderr io.Writer // for text; control characters of a terminal are removed
	rawOut, rawErr io.Writer // the same streams for bytes: bundles, the log, changing lines

	flags             *pflag.FlagSet // of the verb
	server, tokenFile string         // --server and --token-file, of verbs that operate a proxy
	config            *config.Config // nil until settings reads it
	started           bool           // the command line was valid
	output            jsonOutput
}

// load reads the configuration and checks it. more override the flags of the command line. The error is a [config.Error].
func (env *environment) load(more ...config.Flag) (*config.Config, error) {
	return config.Load(env.configFile(), env.variables, append(env.keyFlags(), more...))
}

// run runs a command line without the name of the program. It returns the exit code, and returns soon after ctx ends.
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
		Short: "Cache modules and providers of Terraform and OpenTofu registries",
		Long:  rootHelp,
		Example: `  modproxy serve --data /var/lib/modproxy
  modproxy client-config > ~/.terraformrc
  modproxy ls 'acme/*/aws' --json`,
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
	setTemplates(root)
	addVerbs(root, "run", "Run a proxy",
		newServeCommand(env), newStatusCommand(env), newHealthCommand(env), newDoctorCommand(env), newConfigCommand(env),
		newModulesCommand(env), newClientConfigCommand(env), newLogLevelCommand(env))
	addVerbs(root, "fill", "Download packages, and carry them to another proxy",
		newMirrorCommand(env), newRefreshCommand(env), newMissingCommand(env), newExportCommand(env), newImportCommand(env))
	addVerbs(root, "keep", "Manage the stored packages",
		newLsCommand(env), newRmCommand(env), newGCCommand(env), newVerifyCommand(env), newRebuildCommand(env),
		newBackupCommand(env), newRestoreCommand(env))
	addVerbs(root, "decide", "Decide which versions clients can use",
		newPolicyCommand(env), newPendingCommand(env), newApproveCommand(env), newRejectCommand(env), newBlockCommand(env),
		newUnblockCommand(env), newDeprecateCommand(env), newDecisionsCommand(env))
	addVerbs(root, "prove", "Verify the content of versions", newLedgerCommand(env), newLockCommand(env))
	addVerbs(root, "access", "Give clients access", newTokenCommand(env), newKeyCommand(env))
	help := newHelpCommand()
	root.SetHelpCommand(help)
	addVerbs(root, "more", "More", newConformanceCommand(env), newCompletionCommand(env), help, newVersionCommand(env))
	return root
}

const rootHelp = `modproxy stores modules and providers of Terraform and OpenTofu registries near
their users. It records the content of a version at the first download, and
refuses other content afterwards.

Every key of the configuration can be set in a file or in a variable, and the
most important keys also by a flag. MODPROXY_CACHE_FRESH is the variable of
cache.fresh. Flags take precedence over variables, and variables over the file.
"modproxy config" prints the values in force and their sources.

Verbs with --json print one JSON object: "items" is the list of results, each
an object, and "summary" is about all results, if the verb has more to report.
If an error ends the output, the object is not closed.

Exit codes: 0 done, 1 failed, 2 the command line or the configuration is wrong.`

// addVerbs adds verbs to root under a title of the help.
func addVerbs(root *cobra.Command, id, title string, verbs ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title + ":"})
	for _, verb := range verbs {
		verb.GroupID = id
		root.AddCommand(verb)
	}
}
