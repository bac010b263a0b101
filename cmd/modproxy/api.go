package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/hostname"
)

// addServerFlags gives a verb the flags for a proxy elsewhere.
func addServerFlags(cmds ...*cobra.Command) {
	for _, cmd := range cmds {
		cmd.Flags().String("server", "", "`URL` of a proxy elsewhere to operate, instead of the one in the data directory")
		cmd.Flags().String("token-file", "", "`file` with an operator's token for --server (MODPROXY_TOKEN)")
	}
}

// server returns the value of --server, or an empty string.
func (env *environment) server() string {
	if f := env.flags.set.Lookup("server"); f != nil {
		return f.Value.String()
	}
	return ""
}

// settings reads the configuration and does not check it as a whole: the proxy that
// serves may have had other flags. With --server the configuration is the proxy's,
// and settings returns nil.
func (env *environment) settings() (*config.Config, error) {
	if env.server() != "" {
		if env.flags.set.Changed("data") {
			return nil, misuse{errors.New("--server names a proxy elsewhere, and --data a directory here: give one of them")}
		}
		return nil, nil
	}
	if f := env.flags.set.Lookup("token-file"); f != nil && f.Changed && env.flags.set.Lookup("server") != nil {
		return nil, misuse{errors.New("--token-file goes with --server")}
	}
	c, err := config.Read(env.flags.file(), env.variables, env.flags.changed())
	return c, err
}

// operate calls f with the operator's API: of the proxy at --server, else of the one
// that serves from the data directory of c, else of this process, which opens part
// of the directory for it.
func (env *environment) operate(ctx context.Context, c *config.Config, part app.Part, f func(api *admin.Client) error) (err error) {
	if c == nil {
		api, err := env.remote()
		if err != nil {
			return err
		}
		return f(api)
	}
	if part != app.LedgerNow {
		api, claim, err := admin.Reach(ctx, c.Data)
		if err != nil {
			return err
		}
		if api != nil {
			return f(api)
		}
		defer func() { err = errors.Join(err, claim.Close()) }()
	}
	if part == app.Registries {
		if c, err = env.load(); err != nil {
			return err
		}
	}
	api, done, err := app.OpenAPI(ctx, c, part, app.Options{Version: buildVersion()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return f(api)
}

// alone calls f while no other process works in the data directory of c.
func (env *environment) alone(ctx context.Context, c *config.Config, f func() error) (err error) {
	if err := admin.HaveData(c.Data); err != nil {
		return err
	}
	claim, err := admin.ClaimToServe(ctx, c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, claim.Close()) }()
	return f()
}

// remote returns the API of the proxy at --server.
func (env *environment) remote() (*admin.Client, error) {
	token := env.variable("MODPROXY_TOKEN")
	if name := env.flags.set.Lookup("token-file").Value.String(); name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, misuse{fmt.Errorf("--token-file: %w", err)}
		}
		token = string(text)
	}
	err := config.CheckURL(env.server())
	if err == nil {
		var api *admin.Client
		if api, err = admin.Remote(env.server(), strings.TrimSpace(token)); err == nil {
			return api, nil
		}
	}
	return nil, misuse{fmt.Errorf("--server: %w", err)}
}

// variable returns an environment variable, or an empty string.
func (env *environment) variable(name string) string {
	for _, v := range env.variables {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// chosen returns the settings, and MODULE and VERSION if they are given.
func (env *environment) chosen(args []string) (*config.Config, admin.Query, error) {
	c, err := env.settings()
	if err != nil {
		return nil, admin.Query{}, err
	}
	q, err := choose(c, args)
	return c, q, err
}

// choose reads MODULE and VERSION if they are given. A module without its hostname
// is one of the first upstream of c.
func choose(c *config.Config, args []string) (q admin.Query, err error) {
	host := ""
	if c != nil {
		host = c.DefaultHost()
	}
	if len(args) > 0 {
		if q.Module, err = hostname.ParseModule(args[0], host); err != nil {
			return q, misuse{err}
		}
	}
	if len(args) > 1 {
		if q.Version, err = modproxy.CanonicalVersion(args[1]); err != nil {
			return q, misuse{err}
		}
	}
	return q, nil
}

// newLines prints JSON documents, each in a line.
func newLines(w io.Writer) *json.Encoder {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return out
}

// printList prints the elements of a list, each as JSON in a line or as its text.
func printList[T any](w io.Writer, list []T, asJSON bool, text func(T) string) error {
	lines := newLines(w)
	for _, v := range list {
		var err error
		if asJSON {
			err = lines.Encode(v)
		} else {
			_, err = io.WriteString(w, text(v))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printDocument prints one thing as one JSON document.
func printDocument(w io.Writer, v any) error {
	out := newLines(w)
	out.SetIndent("", "  ")
	return out.Encode(v)
}
