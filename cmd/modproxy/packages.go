package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
)

func newLsCommand(env *environment) *cobra.Command {
	return withJSON(env.withServer(&cobra.Command{
		Use:        "ls [MODULE-PATTERN]",
		Short:      "List the stored packages",
		Long:       lsHelp,
		Example:    "  modproxy ls\n  modproxy ls 'acme/*/aws' --json",
		Args:       arguments(0, 1),
		SuggestFor: []string{"list"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.listPackages(cmd.Context(), strings.Join(args, ""))
		},
	}), `"module", "version", "platform", "state", "size_bytes", "sum", …`, `"versions", "bytes"`)
}

const lsHelp = `List every version whose package is or was cached, one a line: module, version,
state, size, and the date of the last use. --json also prints the time of the
download, the sum, the source, the commit and the mirror. A version of a
provider has one line for its release, with the checksums and the signature, and
one line for each platform.

The state is "kept" if the package is stored, "evicted" if it was removed to
make room or by "modproxy rm", "superseded" if the ledger has other content for
the version, and "damaged" if its record in the index is damaged. If a client
requests a package in another state than "kept", modproxy downloads it again.

Lines below a package are about the package. "note:" names the parts of the
source that the package leaves out, and names in it that are the same on some
file systems. "blocked:" and "deprecated:" print the decisions of operators.

MODULE-PATTERN is the address of a module or provider in which * matches any
part of a segment, such as 'acme/*/aws' or 'hashicorp/*'. Without a hostname it
matches any registry.`

// listPackages prints the packages whose addresses match pattern.
func (env *environment) listPackages(ctx context.Context, pattern string) error {
	if _, err := admin.ParsePattern(pattern); err != nil {
		return misuse{err}
	}
	table := packageTable{out: bufio.NewWriter(env.stdout)}
	all, err := ask(ctx, env, admin.PackagesList, admin.ListRequest{Pattern: pattern}, func(p admin.Package) error {
		if env.json() {
			return env.item(p, "")
		}
		return table.add(p)
	})
	if err == nil && pattern != "" && all.Blobs == 0 {
		err = fmt.Errorf("no package of %s is or was cached", printable(pattern))
	}
	if err != nil {
		return err
	}
	if env.json() {
		return env.end(listed{all.Blobs, all.Bytes}, "")
	}
	if err := table.flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stderr, "%s; %s\n", count(all.Blobs, "version"), modproxy.SizeText(all.Bytes))
	return err
}

// listed is the summary of a list of packages.
type listed struct {
	Versions int   `json:"versions"`
	Bytes    int64 `json:"bytes"`
}

// packageTable prints packages as a table, with each note in a line below its package. It prints in parts to bound the memory. Columns
// only become wider from part to part.
type packageTable struct {
	out    *bufio.Writer
	list   []admin.Package
	widths [4]int
}

const packagesAtOnce = 4096

func (t *packageTable) add(p admin.Package) error {
	if t.list = append(t.list, p); len(t.list) < packagesAtOnce {
		return nil
	}
	return t.flush()
}

func (t *packageTable) flush() error {
	rows := make([][5]string, 0, len(t.list)+1)
	if t.widths[0] == 0 && len(t.list) > 0 {
		rows = append(rows, [5]string{"MODULE", "VERSION", "STATE", "SIZE", "LAST USED"})
	}
	heads := len(rows)
	for _, p := range t.list {
		last := "-"
		if !p.Last.IsZero() {
			last = p.Last.UTC().Format(time.DateOnly)
		}
		rows = append(rows, [5]string{p.Module, p.ShownVersion(), p.State, modproxy.SizeText(p.Size), last})
	}
	for _, row := range rows {
		for i := range t.widths {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	for i, row := range rows {
		for column, width := range t.widths {
			fmt.Fprintf(t.out, "%-*s  ", width, row[column]) // Flush returns the error
		}
		fmt.Fprintln(t.out, row[4])
		if i >= heads {
			t.remark(t.list[i-heads])
		}
	}
	t.list = t.list[:0]
	return t.out.Flush()
}

func (t *packageTable) remark(p admin.Package) {
	for _, note := range p.Notes {
		fmt.Fprintf(t.out, "  note: %s\n", printable(note))
	}
	if d := p.Blocked; d != nil {
		fmt.Fprintf(t.out, "  blocked: by %s\n", printable(d.By+": "+d.Reason))
	}
	if d := p.Deprecated; d != nil {
		fmt.Fprintf(t.out, "  deprecated: by %s\n", printable(d.By+": "+d.Deprecation()))
	}
}

// firstNames returns at most most names of a list, and the number of the others.
func firstNames(list []string, most int) string {
	more := ""
	if n := len(list) - most; n > 0 {
		list, more = list[:most], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(list, ", ") + more
}
