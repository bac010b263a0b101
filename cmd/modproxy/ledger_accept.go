package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/internal/versionname"
)

func newLedgerAcceptCommand(env *environment) *cobra.Command {
	var in admin.AcceptRequest
	var sum string
	cmd := env.withServer(&cobra.Command{
		Use:   "accept MODULE VERSION | PROVIDER | NAMESPACE/*",
		Short: "Accept other content of a version, or another key of a provider",
		Long:  ledgerAcceptHelp,
		Example: `  modproxy ledger accept acme/vpc/aws 1.0.0 --sum h1:… --reason 'tag moved'
  modproxy ledger accept 'hashicorp/*' --key FINGERPRINT --reason 'key rotated'`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := env.acceptable(in.Key, args)
			if err != nil {
				return err
			}
			in.Name, in.Sum = name, modproxy.Sum(sum)
			switch {
			case in.Key != "" && (name.Version != "" || sum != "" || in.Subdir != "" || in.Reason == ""):
				return misuse{errors.New("--key goes with a provider and --reason, and nothing else")}
			case in.Key == "" && (sum == "" || in.Reason == "" || name.Version == ""):
				return misuse{hint.With(errors.New("VERSION, --sum and --reason are needed"), `"modproxy ledger drift" prints the sums`)}
			}
			out, err := ask(cmd.Context(), env, admin.LedgerAccept, in, nil)
			if err != nil {
				return err
			}
			return env.print(struct {
				admin.AcceptRequest
				Result admin.AcceptResult `json:"result"`
			}{in, out}, acceptedText(in, out))
		},
	})
	cmd.Flags().StringVar(&sum, "sum", "", "the `sum` of the content: h1: and base64")
	cmd.Flags().StringVar(&in.Subdir, "subdir", "", "the module's `directory` in the package, \".\" for the whole package (the offered one)")
	cmd.Flags().StringVar(&in.Key, "key", "", "the `fingerprint` of a key that can also sign releases of the provider")
	cmd.Flags().StringVar(&in.Reason, "reason", "", "one line of `text`: the reason, and the person who accepts the change")
	return withJSON(cmd, `"module", "version", "sum", "key", "reason", "result": {"before", "offered", …}`, "")
}

const ledgerAcceptHelp = `Add a record to the ledger: the version then has the content of --sum. The
record has the reason. modproxy no longer serves a cached package with other
content; it downloads the version again, and its content must match. "modproxy
ledger drift" prints the offered content.

With --key, the key with this fingerprint can also sign releases of a provider.
It is the fingerprint of the primary key. The publisher should announce it
outside of the registry. 'registry.terraform.io/hashicorp/*' accepts the key for
every provider of the namespace whose keys are recorded.

Both the earlier and the new record stay in the ledger.`

// acceptable returns the subject of args: a version, a provider, or, with a key, also the providers of a namespace.
func (env *environment) acceptable(key string, args []string) (versionname.Name, error) {
	namespace, ok := strings.CutSuffix(args[0], "/*")
	if ok && key != "" {
		args = append([]string{namespace + "/any"}, args[1:]...)
	}
	v, err := env.chosen(args...)
	name := versionname.Of(v)
	if ok && key != "" && err == nil {
		name.Module = v.Host + "/" + v.Namespace + "/*"
	}
	return name, err
}

func acceptedText(in admin.AcceptRequest, out admin.AcceptResult) string {
	if in.Key != "" {
		text := ""
		for _, module := range out.Modules {
			text += fmt.Sprintf("Releases of %s may now be signed by %s.\n", module, in.Key)
		}
		if len(out.Modules) == 0 {
			text = fmt.Sprintf("Releases of %s may now be signed by %s.\n", in.Module, in.Key)
		}
		if !out.Offered {
			text += "No release that it has signed was offered yet.\n"
		}
		return text
	}
	text := fmt.Sprintf("%s %s is now %s; it was %s.\n", in.Module, in.Version, in.Sum, out.Before)
	switch {
	case out.Before == in.Sum && out.Subdir != "":
		text = fmt.Sprintf("%s %s is now in the directory %s.\n", in.Module, in.Version, out.Subdir)
	case out.Before == in.Sum:
		text = fmt.Sprintf("%s %s is %s already.\n", in.Module, in.Version, in.Sum)
	case !out.Offered:
		text += "No upstream has offered this content yet: until one does, the version cannot be fetched.\n"
	}
	return text
}
