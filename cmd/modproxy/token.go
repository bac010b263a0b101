package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/datadir"
	"github.com/modproxy/modproxy/internal/hint"
)

func newTokenCommand(env *environment) *cobra.Command {
	return newGroup("token", "Create, list and revoke tokens for clients",
		`Tokens are in the data directory. A proxy that serves from it applies changes
within five seconds. With --server, the tokens are those of a proxy elsewhere.`,
		newTokenCreateCommand(env), newTokenListCommand(env), newTokenRevokeCommand(env))
}

// tokens opens the tokens in the data directory, which must exist, or those of the proxy at --server. Other mistakes in the
// configuration do not matter. It returns a nil configuration with --server.
func (env *environment) tokens(ctx context.Context) (*config.Config, admin.Tokens, error) {
	c, err := env.settings()
	if err != nil || c == nil {
		return nil, remoteTokens{env, ctx}, err
	}
	if err := datadir.Check(c.Data); err != nil {
		return nil, nil, err
	}
	tokens, err := auth.OpenTokens(c.TokensFile())
	return c, tokens, err
}

// remoteTokens are the tokens of the proxy at --server.
type remoteTokens struct {
	env *environment
	ctx context.Context // of List
}

// List implements [admin.Tokens].
func (r remoteTokens) List() (list []auth.Token, err error) {
	_, err = ask(r.ctx, r.env, admin.TokensList, struct{}{}, func(t auth.Token) error {
		list = append(list, t)
		return nil
	})
	return list, err
}

// Create implements [admin.Tokens].
func (r remoteTokens) Create(ctx context.Context, spec auth.Token) (string, auth.Token, error) {
	in := admin.TokenRequest{Name: spec.Name, Expires: spec.Expires, Scopes: spec.Scopes, Admin: spec.Admin, Refresh: spec.Refresh}
	made, err := ask(ctx, r.env, admin.TokensCreate, in, func(struct{}) error { return nil })
	return made.Text, made.Token, err
}

// Revoke implements [admin.Tokens].
func (r remoteTokens) Revoke(ctx context.Context, idOrName string) (auth.Token, error) {
	return ask(ctx, r.env, admin.TokensRevoke, admin.RevokeRequest{Token: idOrName}, func(struct{}) error { return nil })
}

func newTokenCreateCommand(env *environment) *cobra.Command {
	var scopes []string
	var spec auth.Token
	cmd := env.withServer(&cobra.Command{
		Use:   "create NAME",
		Short: "Create a token",
		Long:  tokenCreateHelp,
		Example: `  modproxy token create ci --scope registry.terraform.io/acme
  modproxy token create ci --scope 'registry.opentofu.org/*' --expires 90d
  modproxy token create publish --refresh --scope registry.example.com/acme
  modproxy token create prometheus --admin`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec.Name = args[0]
			for _, s := range scopes {
				scope, err := config.ParseScope(s)
				if err != nil {
					return misuse{fmt.Errorf("--scope: %w", err)}
				}
				spec.Scopes = append(spec.Scopes, scope)
			}
			if len(scopes) == 0 && !spec.Admin {
				return misuse{hint.With(errors.New("it could do nothing: no --scope is given"),
					"--scope registry.terraform.io/acme is for the modules of one namespace", "--scope '*' is for every module")}
			}
			return env.createToken(cmd.Context(), spec)
		},
	}, "listen", "public-url", "tls-cert", "tls-key")
	cmd.Flags().StringArrayVar(&scopes, "scope", nil, "`HOST/NAMESPACE` that the token can read, or '*' for all; may be repeated")
	spec.Expires, _ = parseExpiry("30d")
	addFlag(cmd, &spec.Expires, "expires", "`duration` for which the token is valid, such as 12h or 30d, or never (default \"30d\")", parseExpiry)
	cmd.Flags().BoolVar(&spec.Admin, "admin", false, "allow operating the proxy and reading its metrics, but no content without --scope")
	cmd.Flags().BoolVar(&spec.Refresh, "refresh", false, "allow refreshing the modules of its scopes")
	return withJSON(cmd, `"token", "id", "name", "created", "expires", "scopes", "admin", "refresh"`, "")
}

const tokenCreateHelp = `Create a token and print it on standard output. It is printed only once. Other
messages go to standard error.

The token can read the modules and providers of its scopes. A scope is a
registry and a namespace, such as registry.terraform.io/acme. Either part can be
"*" as a whole, and "*" alone means all modules and providers.

--refresh allows "modproxy refresh" for the modules of the scopes, for a job
that publishes them. --admin allows all verbs that have --server, for every
module. Without a scope, these verbs see names, versions and sums, but no
content: they export and send no packages, and do not follow calls in packages.

The data directory must exist: "modproxy serve" creates it. With --server, the
new token has at most the scopes of the token that creates it, and expires no
later.`

// parseExpiry reads how long a token is valid: a duration, or "never", which returns the zero time.
func parseExpiry(s string) (time.Time, error) {
	if s == "never" {
		return time.Time{}, nil
	}
	d, err := config.ParseDuration(s)
	if err != nil || d < time.Second {
		return time.Time{}, fmt.Errorf("want a duration with its unit, such as 12h or 30d, or never, not %.80q", s)
	}
	return time.Now().Add(d).Truncate(time.Second), nil
}

// createToken creates a token in the data directory, or at --server.
func (env *environment) createToken(ctx context.Context, spec auth.Token) error {
	if c, err := env.settings(); err != nil {
		return err
	} else if c != nil {
		if err := env.prepareTokens(c); err != nil {
			return err
		}
	}
	c, tokens, err := env.tokens(ctx)
	if err != nil {
		return err
	}
	text, made, err := tokens.Create(ctx, spec)
	if errors.Is(err, modproxy.ErrInvalid) {
		return misuse{err}
	}
	if err != nil {
		return err
	}
	if err := env.print(admin.CreatedToken{Text: text, Token: made}, text+"\n"); err != nil {
		return err
	}
	help := remoteTokenHelp(env.server, clean.Deep(made)) // with --json, the answer is not clean yet
	if c != nil {
		help = tokenHelp(c, made)
	}
	_, err = fmt.Fprint(env.stderr, help)
	return err
}

// prepareTokens makes the directory of the tokens in the data directory, which must exist, because a running proxy would not use a new
// one.
func (env *environment) prepareTokens(c *config.Config) error {
	if err := datadir.Check(c.Data); err != nil {
		q := clean.ShellQuote(c.Data)
		hints := []string{fmt.Sprintf(`"modproxy serve --data %s" makes it, and so does "mkdir -m 700 %s"`, q, q)}
		if c.Source("data") != "--data" {
			hints = append(hints, "a token counts for the proxy that serves from the same directory: --data names it, or --config the configuration that does")
		}
		return hint.With(err, hints...)
	}
	if _, err := os.Stat(filepath.Join(c.Data, "index.db")); errors.Is(err, fs.ErrNotExist) {
		env.remark(fmt.Errorf("no proxy has served from %s yet: the token counts for one that does", c.Data))
	}
	return auth.MakeDir(filepath.Dir(c.TokensFile()))
}

func newTokenRevokeCommand(env *environment) *cobra.Command {
	return withJSON(env.withServer(&cobra.Command{
		Use:   "revoke ID|NAME",
		Short: "Revoke a token permanently",
		Long: `Permanently revoke the token with the given id, or the valid token with the
given name, and every package path that was signed for it. A serving proxy
rejects the token within five seconds.`,
		Example: "  modproxy token revoke ci",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, tokens, err := env.tokens(cmd.Context())
			if err != nil {
				return err
			}
			if c != nil {
				if _, err := os.Stat(c.TokensFile()); errors.Is(err, fs.ErrNotExist) {
					return hint.With(fmt.Errorf("%s has no tokens", c.Data), datadir.Hint)
				}
			}
			revoked, err := tokens.Revoke(cmd.Context(), args[0])
			if errors.Is(err, modproxy.ErrNotFound) {
				return hint.With(err, `"modproxy token list" lists them`)
			}
			if err != nil {
				return err
			}
			return env.print(revoked, fmt.Sprintf("The token %s (%s) is revoked.\n", revoked.Name, revoked.ID))
		},
	}), `"id", "name", "created", "expires", "revoked", …`, "")
}

func newKeyCommand(env *environment) *cobra.Command {
	return newGroup("key", "Replace the key that signs package paths", "", newKeyRotateCommand(env))
}

func newKeyRotateCommand(env *environment) *cobra.Command {
	return withJSON(withKeys(&cobra.Command{
		Use:     "rotate",
		Short:   "Sign new package paths with a new key",
		Long:    `Earlier paths stay valid until they expire, or until the second rotation.`,
		Example: "  modproxy key rotate --data /var/lib/modproxy",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.settings()
			if err == nil {
				err = datadir.Check(c.Data)
			}
			if err != nil {
				return err
			}
			if err := auth.RotateKey(cmd.Context(), c.KeyFile(), time.Now()); err != nil {
				return hint.With(err, keyHint(err, c.Data))
			}
			return env.print(map[string]string{"file": c.KeyFile()}, "There is a new key. A proxy that serves signs with it within five seconds.\n")
		},
	}, "data"), `"file"`, "")
}

// keyHint returns a remedy for an error while a key is created.
func keyHint(err error, dir string) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the first modproxy that serves with authentication makes the key"
	case errors.Is(err, syscall.EROFS):
		return fmt.Sprintf("the data directory %s is on a file system that is read-only: rotate the key where it can be written", dir)
	case errors.Is(err, fs.ErrPermission):
		return "run it as the owner of the data directory"
	}
	return "the old key stays valid"
}
