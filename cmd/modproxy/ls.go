package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/cache"
)

func newLsCommand(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [MODULE-PATTERN]",
		Short: "List the kept packages",
		Long: `List every version whose package is or was kept, one in a line: module, version,
state, size, and the day on which it was last used. --json prints more: when it was
fetched, its sum, source and commit.

The state is "kept"; "evicted", if the package was removed to make room or by
"modproxy rm", and is fetched again when a client asks for it; "missing", if it is
lost; "superseded", if the ledger has other content for the version, which is
fetched when a client asks for it; or "damaged", if its record is damaged. A line
that begins with "note:" says which parts of the source the package above leaves
out, and which of its names are the same on some file systems.

MODULE-PATTERN is a module address in which * stands for any part of a segment, such
as 'acme/*/aws'. Without a hostname it matches any registry.`,
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
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON, one package in a line: {"module": …, "version": …, "state": …, "size_bytes": …, …}`)
	return cmd
}

func (env *environment) ls(cmd *cobra.Command, a *api, pattern string, asJSON bool) error {
	out := json.NewEncoder(env.stdout)
	out.SetEscapeHTML(false)
	var done *cache.Removed
	var list []*listedPackage
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
			list = append(list, line.Package)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case done == nil:
		return errCut
	case !asJSON:
		if err := printPackages(env.stdout, list); err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.stderr, "%d versions; %s\n", done.Packages, sizeText(done.Bytes))
	}
	return err
}

// printPackages prints a table, and each note of a package in a line of its own.
func printPackages(w io.Writer, list []*listedPackage) error {
	if len(list) == 0 {
		return nil
	}
	var table bytes.Buffer
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "MODULE\tVERSION\tSTATE\tSIZE\tLAST USED") // a tabwriter fails in Flush
	for _, p := range list {
		last := "-"
		if !p.Last.IsZero() {
			last = p.Last.UTC().Format(time.DateOnly)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", p.Module, p.Version, p.State, sizeText(p.Size), last)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	lines := strings.SplitAfter(table.String(), "\n")
	for i, p := range list {
		for _, note := range p.Notes {
			lines[i+1] += "  note: " + note + "\n"
		}
	}
	_, err := io.WriteString(w, strings.Join(lines, ""))
	return err
}
