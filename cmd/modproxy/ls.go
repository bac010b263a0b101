package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
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
"modproxy rm"; "superseded", if the ledger has other content for the version; or
"damaged", if its record is damaged. What is not "kept" is fetched again when a
client asks for it. A line that begins with "note:" says which parts of the source
the package above leaves out, and which of its names are the same on some file
systems.

MODULE-PATTERN is a module address in which * stands for any part of a segment, such
as 'acme/*/aws'. Without a hostname it matches any registry.`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, err := admin.ParsePattern(strings.Join(args, ""))
			if err != nil {
				return misuse{err}
			}
			return env.operate(cmd.Context(), app.Packages, func(api *admin.Client) error {
				return env.ls(cmd.Context(), api, pattern, asJSON)
			})
		},
	}
	addServerFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON, one package in a line: {"module": …, "version": …, "state": …, "size_bytes": …, …}`)
	return cmd
}

func (env *environment) ls(ctx context.Context, api *admin.Client, pattern string, asJSON bool) error {
	var list []admin.Package
	each := func(p admin.Package) error { list = append(list, p); return nil }
	if asJSON {
		each = printer[admin.Package](env.stdout, true, nil)
	}
	all, err := api.Packages(ctx, pattern, each)
	if err != nil || asJSON {
		return err
	}
	if err := printPackages(env.stdout, list); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stderr, "%d versions; %s\n", all.Blobs, sizeText(all.Bytes))
	return err
}

// printPackages prints a table, and each note of a package in a line below it.
func printPackages(w io.Writer, list []admin.Package) error {
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
