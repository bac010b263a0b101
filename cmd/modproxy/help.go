package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/modproxy/modproxy/internal/hint"
)

// helpWidth is the maximum width of a help in columns.
const helpWidth = 80

// helpTemplate prints the purpose of a verb, then its usage.
const helpTemplate = `{{.Short}}

{{with .Long}}{{. | trimTrailingWhitespaces}}

{{end}}{{.UsageString}}`

// usageTemplate is that of cobra with flags wrapped at helpWidth.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} VERB{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$all := .Commands}}{{if not .Groups}}

Verbs:{{range $all}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{range $group := .Groups}}

{{.Title}}{{range $all}}{{if and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{flags .LocalFlags | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} VERB --help" prints more about a verb.{{end}}
`

func init() { // all commands of the process share the functions of templates
	cobra.AddTemplateFunc("flags", func(set *pflag.FlagSet) string { return set.FlagUsagesWrapped(helpWidth) })
}

// setTemplates sets these templates for root and all its verbs.
func setTemplates(root *cobra.Command) {
	root.SetHelpTemplate(helpTemplate)
	root.SetUsageTemplate(usageTemplate)
}

// isGroup is the annotation of commands that only group verbs.
const isGroup = "group"

// newGroup returns a command that only groups verbs.
func newGroup(name, short, long string, verbs ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use: name, Short: short, Long: long,
		Annotations: map[string]string{isGroup: ""},
		Args:        unknownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return misuse{hint.With(errors.New("no verb given"), fmt.Sprintf(`"%s --help" lists the verbs`, cmd.CommandPath()))}
		},
	}
	group.AddCommand(verbs...)
	return group
}

// unknownVerb returns an error for a command whose arguments do not name one of its verbs.
func unknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	help := fmt.Sprintf(`"%s --help" lists the verbs`, cmd.CommandPath())
	if meant := meantVerb(cmd, args[0]); meant != "" {
		help = fmt.Sprintf("did you mean %s?", meant)
	}
	return hint.With(fmt.Errorf("unknown verb %.80q", args[0]), help)
}

// maxEdits is the maximum edit distance of a suggested name.
const maxEdits = 2

// meantVerb returns the verb of cmd that name probably means: one whose purpose has this name elsewhere, or the one with the most similar
// name. It returns the empty string if no verb fits.
func meantVerb(cmd *cobra.Command, name string) string {
	var verbs []string
	for _, c := range cmd.Commands() {
		for _, other := range c.SuggestFor {
			if other == strings.ToLower(name) {
				return c.Name()
			}
		}
		verbs = append(verbs, c.Name())
	}
	return hint.Within(maxEdits, name, verbs)
}

// newHelpCommand replaces cobra's command, which exits with 0 for an unknown verb.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB…]",
		Short: "Print what a verb does and which flags it has",
		Example: `  modproxy help serve
  modproxy help policy report`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, unknown, err := cmd.Root().Find(args)
			if err != nil || len(unknown) > 0 {
				return misuse{cmp.Or(err, unknownVerb(found, unknown))}
			}
			found.InitDefaultHelpFlag() // cobra adds the flag when a command runs
			return found.Help()
		},
	}
}

// newCompletionCommand replaces cobra's command, whose help is wider than helpWidth.
func newCompletionCommand(env *environment) *cobra.Command {
	shell := func(name, title, needs, example string, print func(root *cobra.Command, descriptions bool) error) *cobra.Command {
		plain := false
		cmd := &cobra.Command{
			Use:     name,
			Short:   "Print the completion script for " + title,
			Long:    "The script completes the verbs and flags of modproxy. " + needs,
			Example: example,
			Args:    arguments(0, 0),
			RunE:    func(cmd *cobra.Command, _ []string) error { return print(cmd.Root(), !plain) },
		}
		cmd.Flags().BoolVar(&plain, "no-descriptions", false, "complete without descriptions")
		return cmd
	}
	return newGroup("completion", "Print scripts that complete command lines in a shell", "",
		shell("bash", "bash", "It needs the\npackage bash-completion.", `  source <(modproxy completion bash)
  modproxy completion bash > /etc/bash_completion.d/modproxy`,
			func(root *cobra.Command, descriptions bool) error {
				return root.GenBashCompletionV2(env.stdout, descriptions)
			}),
		shell("fish", "fish", "", `  modproxy completion fish | source
  modproxy completion fish > ~/.config/fish/completions/modproxy.fish`,
			func(root *cobra.Command, descriptions bool) error {
				return root.GenFishCompletion(env.stdout, descriptions)
			}),
		shell("powershell", "PowerShell", "", "  modproxy completion powershell | Out-String | Invoke-Expression",
			func(root *cobra.Command, descriptions bool) error {
				if descriptions {
					return root.GenPowerShellCompletionWithDesc(env.stdout)
				}
				return root.GenPowerShellCompletion(env.stdout)
			}),
		shell("zsh", "zsh", "It needs\n\"autoload -U compinit; compinit\" in ~/.zshrc.", `  source <(modproxy completion zsh)
  modproxy completion zsh > "${fpath[1]}/_modproxy"`,
			func(root *cobra.Command, descriptions bool) error {
				if descriptions {
					return root.GenZshCompletion(env.stdout)
				}
				return root.GenZshCompletionNoDesc(env.stdout)
			}))
}
