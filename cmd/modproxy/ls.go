package main

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/cache"
)

func newLsCommand(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [MODULE-PATTERN]",
		Short: "List the packages that are kept",
		Long: `List every version whose package is kept or was, one in a line: module, version,
state, size, when it was last used, sum, source, commit. The state is "kept";
"evicted", when the package was removed to make room or by "modproxy rm", and is
fetched again when it is asked for; "missing", when it is lost; "superseded", when
the ledger has other content of the version, which is fetched when it is asked for;
or "damaged", when its record is. Lines that begin with "note:" say of the package
above what of the source is left out of it, and which of its names are the same on
some file systems.

MODULE-PATTERN is a module address in which * stands for any part of a segment,
such as 'acme/*/aws'; without a hostname, of any registry.`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := env.settings()
			if err != nil {
				return err
			}
			pattern := ""
			if len(args) > 0 {
				pattern = args[0]
			}
			if _, err := parsePattern(pattern); err != nil {
				return misuse{err}
			}
			return withAPI(cmd.Context(), c, openStorage, func(a *api) error {
				return env.ls(cmd, a, pattern, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print {"module": …, "version": …, "state": …, "size_bytes": …, …}, one in a line`)
	return cmd
}

func (env *environment) ls(cmd *cobra.Command, a *api, pattern string, asJSON bool) error {
	out := json.NewEncoder(env.stdout)
	out.SetEscapeHTML(false)
	var done *cache.Removed
	path := "/-/api/packages?" + url.Values{"pattern": {pattern}}.Encode()
	err := readStream(cmd.Context(), a, "GET", path, nil, func(line packageLine) error {
		switch {
		case line.Error != "":
			return fmt.Errorf("%s", line.Error)
		case line.Done != nil:
			done = line.Done
		case line.Package != nil && asJSON:
			return out.Encode(line.Package)
		case line.Package != nil:
			_, err := fmt.Fprintln(env.stdout, line.Package)
			return err
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case done == nil:
		return errCut
	case !asJSON:
		_, err = fmt.Fprintf(env.stderr, "%d versions; %s\n", done.Packages, sizeText(done.Bytes))
	}
	return err
}
