package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/datadir"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/policy"
)

// withServer adds the flags that select a proxy: --server for a remote one, and those of the data directory for a local one. names are
// further keys, as for withKeys.
func (env *environment) withServer(cmd *cobra.Command, names ...string) *cobra.Command {
	addFlag(cmd, &env.server, "server", "`URL` of a proxy elsewhere to operate, instead of the one in the data directory", parseURL)
	cmd.Flags().StringVar(&env.tokenFile, "token-file", "", "`file` with an operator's token for --server (MODPROXY_TOKEN)")
	return withKeys(cmd, append(names, "data")...)
}

// settings reads the configuration without checking it as a whole, because the serving proxy may have other flags. It returns nil with
// --server.
func (env *environment) settings() (*config.Config, error) {
	switch {
	case env.config != nil:
	case env.server != "":
		if env.flags.Changed("data") {
			return nil, misuse{errors.New("--server names a proxy elsewhere, and --data a directory here: give one of them")}
		}
	case env.tokenFile != "":
		return nil, misuse{errors.New("--token-file goes with --server")}
	default:
		var err error
		if env.config, err = config.Read(env.configFile(), env.variables, env.keyFlags()); err != nil {
			return nil, err
		}
	}
	return env.config, nil
}

// ask sends q to the proxy at --server, or to the one that serves from the data directory. If neither exists, this process opens a part of
// the directory and answers itself, unless q needs a process that serves. Without --json, every text in the answer is printable: see [clean.Deep].
func ask[In, Item, End any](
	ctx context.Context, env *environment, q admin.Endpoint[In, Item, End], in In, each func(Item) error,
) (end End, err error) {
	if env.json() {
		return askRaw(ctx, env, q, in, each)
	}
	end, err = askRaw(ctx, env, q, in, func(item Item) error { return each(clean.Deep(item)) })
	return clean.Deep(end), err
}

func askRaw[In, Item, End any](
	ctx context.Context, env *environment, q admin.Endpoint[In, Item, End], in In, each func(Item) error,
) (end End, err error) {
	c, err := env.settings()
	if err != nil {
		return end, err
	}
	if c == nil {
		api, err := env.remote()
		if err != nil {
			return end, err
		}
		return q.Call(ctx, api, in, each)
	}
	for again := false; q.Access != admin.ReadLedger; again = true {
		api, claim, errReach := admin.Reach(ctx, c.Data)
		if errReach != nil {
			return end, errReach
		}
		if api == nil {
			defer func() { err = errors.Join(err, claim.Close()) }()
			if q.Access == admin.UseProcess {
				return end, hint.With(fmt.Errorf("no modproxy serves from %s", c.Data), datadir.Hint, "--server names a proxy elsewhere")
			}
			break
		}
		end, err = q.Call(ctx, api, in, each)
		if admin.IsStreamed(in) || again || ctx.Err() != nil || !errors.Is(err, admin.ErrNoAnswer) {
			return end, err
		}
		// The proxy was killed while it started git. The child holds the lock and the socket a moment longer.
	}
	if q.Access == admin.UseRegistries || q.Access == admin.UsePolicy {
		if c, err = env.load(); err != nil {
			return end, err
		}
	}
	api, done, err := app.OpenAPI(ctx, c, q.Access, app.Options{Version: buildVersion()})
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, done()) }()
	return q.Call(ctx, api, in, each)
}

// makeData creates the data directory for verbs that may be the first to use it, unless --server is given.
func (env *environment) makeData() error {
	c, err := env.settings()
	if err != nil || c == nil {
		return err
	}
	return datadir.Create(c.Data)
}

// alone calls f while no other process works in the data directory.
func (env *environment) alone(ctx context.Context, f func(*config.Config) error) error {
	c, err := env.settings()
	if err == nil {
		err = datadir.Check(c.Data)
	}
	if err != nil {
		return err
	}
	claim, err := datadir.ClaimToServe(ctx, c.Data, datadir.Patience{})
	if err != nil {
		return err
	}
	return errors.Join(f(c), claim.Close())
}

// remote returns the API of the proxy at --server.
func (env *environment) remote() (api *admin.Client, err error) {
	token := env.variable("MODPROXY_TOKEN")
	if env.tokenFile != "" {
		if token, err = readToken(env.tokenFile); err != nil {
			return nil, err
		}
	}
	if api, err = admin.Remote(env.server, strings.TrimSpace(token)); err != nil {
		err = misuse{fmt.Errorf("--server: %w", err)}
	}
	return api, err
}

// readToken returns the token in the file that --token-file names.
func readToken(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", misuse{fmt.Errorf("--token-file: %w", err)}
	}
	return strings.TrimSpace(string(text)), nil
}

// variable returns an environment variable, or the empty string.
func (env *environment) variable(name string) string {
	for _, v := range env.variables {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// host returns the host of modules without a hostname: that of the first upstream, or the empty string with --server.
func (env *environment) host() (string, error) {
	c, err := env.settings()
	if err != nil || c == nil {
		return "", err
	}
	return c.DefaultHost(), nil
}

// moduleUsage is the part of a help that describes MODULE, as chosen reads it.
const moduleUsage = `MODULE is the address of a module or provider. An address without a hostname is
in the first upstream.`

// chosen reads MODULE and VERSION, if given. A module without a hostname belongs to the first upstream.
func (env *environment) chosen(args ...string) (v modproxy.Ref, err error) {
	host, err := env.host()
	if err != nil || len(args) == 0 {
		return v, err
	}
	n := versionname.Name{Module: args[0]}
	if len(args) > 1 {
		if n.Version = args[1]; n.Version == "" {
			return v, misuse{errors.New("VERSION is empty")}
		}
	}
	if v, err = n.Parse(host); err != nil {
		err = misuse{err}
	}
	return v, err
}

// addressUsage is the part of a help that describes MODULE, as address reads it.
const addressUsage = moduleUsage + `

MODULE can be a glob, as in rules of the policy: '*/acme/vpc/aws' matches a
module in all registries, '*/acme/*' all providers of a namespace.`

// address reads MODULE, which may be a glob.
func (env *environment) address(module string) (m modproxy.Address, err error) {
	host, err := env.host()
	if err != nil {
		return m, err
	}
	if m, err = policy.ParseAddress(module, host); err != nil {
		err = misuse{err}
	}
	return m, err
}

// remark prints remarks on standard error. They do not change the exit code.
func (env *environment) remark(all ...error) {
	for _, err := range all {
		if err != nil {
			fmt.Fprintf(env.stderr, "modproxy: %s\n", printable(err.Error()))
		}
	}
}

func (env *environment) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(env.stdout, format, args...)
	return err
}
