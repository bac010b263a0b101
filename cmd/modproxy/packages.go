package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/store"
)

func newLsCommand(env *environment) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "ls [MODULE-PATTERN]",
		Short: "List the kept packages",
		Long: `List every version whose package is or was kept, one in a line: module, version,
state, size, and the day on which it was last used. --json prints more: when it was
fetched, its sum, source and commit. Of a version of a provider there is a line for
its release, which has the checksums and signature, and one for each platform.

The state is "kept"; "evicted", if the package was removed to make room or by
"modproxy rm"; "superseded", if the ledger has other content for the version; or
"damaged", if its record is damaged. What is not "kept" is fetched again when a
client asks for it. A line that begins with "note:" says which parts of the source
the package above leaves out, and which of its names are the same on some file
systems. Lines that begin with "blocked:" and "deprecated:" say what operators have
decided about the version above.

MODULE-PATTERN is the address of a module or provider in which * stands for any part
of a segment, such as 'acme/*/aws' or 'hashicorp/*'. Without a hostname it matches any
registry.`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := strings.Join(args, "")
			if _, err := admin.ParsePattern(pattern); err != nil {
				return misuse{err}
			}
			table := packageTable{out: bufio.NewWriter(env.stdout)}
			all, err := ask(cmd.Context(), env, admin.PackagesList, admin.List{Pattern: pattern}, func(p admin.Package) error {
				if env.json() {
					return env.print(p, "", "")
				}
				return table.add(p)
			})
			if err == nil && pattern != "" && all.Blobs == 0 {
				err = fmt.Errorf("no package of %s is or was kept", printable(pattern))
			}
			if err != nil || env.json() {
				return err
			}
			if err := table.flush(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(env.stderr, "%s; %s\n", count(all.Blobs, "version"), modproxy.SizeText(all.Bytes))
			return err
		},
	}, `print JSON, one package in a line: {"module": …, "version": …, "state": …, "size_bytes": …, …}`)
}

// packageTable prints packages in a table, with each note of a package in a line below it. It has so many in memory: all columns
// are as wide as what has been printed, and what is printed next.
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

func newRmCommand(env *environment) *cobra.Command {
	var in admin.Remove
	cmd := withJSON(&cobra.Command{
		Use:   "rm MODULE VERSION | MODULE --all",
		Short: "Remove the package of one version, or of all versions, of a module",
		Long: `Remove the bytes of a package, unless another version has the same content. The
ledger keeps its record: modproxy fetches the package again when a client asks for
it, and refuses it if it differs ("modproxy ledger accept" accepts other content).

` + moduleUsage + `

--all removes the packages of all its versions.`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := env.chosen(args...)
			if err != nil {
				return err
			}
			if in.All == (len(args) > 1) {
				return misuse{errors.New("want a VERSION, or --all for the packages of all versions")}
			}
			in.Name = admin.NameOf(v)
			_, err = ask(cmd.Context(), env, admin.PackagesRemove, in, printer(env, func(p admin.Removed) string { return removedText(p, in.DryRun) }))
			return err
		},
	}, `print JSON, one package in a line: {"module": …, "version": …, "there": …, …}`)
	cmd.Flags().BoolVar(&in.All, "all", false, "remove the packages of all versions")
	cmd.Flags().BoolVar(&in.DryRun, "dry-run", false, "remove nothing, and print what would be removed")
	return cmd
}

// removedText is what became of a package, in one line.
func removedText(p admin.Removed, dryRun bool) string {
	what := "removed " + modproxy.SizeText(p.Size)
	switch {
	case dryRun && p.There && len(p.Shared) > 0:
		return fmt.Sprintf("%s: would be removed; its %s stay for %s\n", p.Shown(), modproxy.SizeText(p.Size), firstNames(p.Shared, 3))
	case dryRun && p.There:
		return fmt.Sprintf("%s: would remove %s\n", p.Shown(), modproxy.SizeText(p.Size))
	case !p.There:
		what = "was not kept"
	case len(p.Shared) > 0:
		have := "has"
		if len(p.Shared) > 1 {
			have = "have"
		}
		what = fmt.Sprintf("removed; its %s stay for %s, which %s the same content", modproxy.SizeText(p.Size), firstNames(p.Shared, 3), have)
	}
	return fmt.Sprintf("%s: %s; when it is fetched again it must be %s\n", p.Shown(), what, sumText(p.Name, p.Sum))
}

func newGCCommand(env *environment) *cobra.Command {
	var size config.ByteSize
	var in store.GC
	cmd := withJSON(&cobra.Command{
		Use:   "gc",
		Short: "Remove unneeded data, and packages over the size limit",
		Long: `Remove packages without a record, which a crash can leave, once they are an hour
old. Then remove the least recently used packages, until no more than --max-size is
kept. The ledger stays unchanged.

The directory quarantine holds damaged packages and replaced indexes as evidence.
--quarantine removes those that have been there for the given time.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.settings()
			if err != nil {
				return err
			}
			if size == 0 && c != nil {
				size = c.Cache.MaxSize
			}
			in.MaxSize = int64(size)
			found := []admin.Removable{}
			out, err := ask(cmd.Context(), env, admin.PackagesTidy, in, func(r admin.Removable) error {
				if env.json() {
					found = append(found, r)
					return nil
				}
				return env.printf("would remove %s, %s\n", cmp.Or(r.Shown(), "a package without a record, sha256:"+r.Digest.String()), modproxy.SizeText(r.Size))
			})
			if err != nil {
				return err
			}
			if out.Remark != "" {
				env.remark(errors.New(out.Remark))
			}
			return env.print(struct {
				admin.Tidied
				DryRun bool              `json:"dry_run,omitempty"`
				Found  []admin.Removable `json:"found,omitempty"`
			}{out, in.DryRun, found}, "  ", collectedText(out.Collected, in.DryRun))
		},
	}, `print one JSON document: {"orphans": …, "evicted": …, "quarantine": …, "kept_bytes": …}`)
	addFlag(cmd, &size, "max-size", "total `size` of the packages to keep, such as 50GiB (cache.max_size)", parseSize)
	addFlag(cmd, &in.AsideAge, "quarantine", "also remove what was set aside this `long` ago, such as 30d", parseDuration)
	cmd.Flags().BoolVar(&in.DryRun, "dry-run", false, "remove nothing, and print what would be removed")
	return cmd
}

func parseSize(s string) (config.ByteSize, error) {
	size, err := config.ParseByteSize(s)
	if err == nil && size == 0 {
		err = errors.New("want more than nothing: \"modproxy rm\" removes packages by their names")
	}
	return size, err
}

// collectedText is what was removed, in a few lines.
func collectedText(c store.Collected, dryRun bool) string {
	verb := "removed"
	if dryRun {
		verb = "would remove"
	}
	line := func(r store.Amount, what string) string {
		return fmt.Sprintf("%s %d %s, %s\n", verb, r.Blobs, what, modproxy.SizeText(r.Bytes))
	}
	return line(c.Orphans, "packages without a record") + line(c.Evicted, "packages over the bound") +
		line(c.Aside, "files from the quarantine") + fmt.Sprintf("%s are kept\n", modproxy.SizeText(c.Kept))
}

func newRefreshCommand(env *environment) *cobra.Command {
	var all bool
	cmd := withJSON(&cobra.Command{
		Use:   "refresh MODULE… | --all",
		Short: "Ask registries now which versions modules have",
		Long: `Ask upstream which versions a module has, even if the kept list is fresh, and print
in one line what is new and what is gone. modproxy also forgets that a version was
absent or could not be fetched, so that a version published a moment ago can be
installed.

A version that is gone upstream stays listed if its package is stored or can be
fetched from its recorded source.

` + moduleUsage + `

--all stands for every module and provider of which a package is or was kept.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return misuse{errors.New("want the addresses of modules, or --all")}
			}
			in := admin.Refresh{All: all}
			for _, arg := range args {
				v, err := env.chosen(arg)
				if err != nil {
					return err
				}
				in.Modules = append(in.Modules, v.Address.String())
			}
			var failed problems
			show := printer(env, refreshedText)
			_, err := ask(cmd.Context(), env, admin.ModulesRefresh, in, func(m admin.Refreshed) error {
				if m.Error != "" {
					failed = append(failed, errors.New(m.Error))
					if !env.json() {
						return nil
					}
				}
				return show(m)
			})
			if err == nil && len(failed) > 0 {
				err = failed
			}
			return err
		},
	}, `print JSON, one module in a line: {"module": …, "versions": …, "new": […], "gone": […], "kept": […]}`)
	cmd.Flags().BoolVar(&all, "all", false, "every module of which a package is or was kept")
	return cmd
}

// refreshedText says in one line what a registry answered.
func refreshedText(m admin.Refreshed) string {
	var parts []string
	if len(m.New) > 0 {
		parts = append(parts, "new: "+firstNames(m.New, 20))
	}
	var gone []string
	for _, version := range m.Gone {
		if slices.Contains(m.Kept, version) {
			version += " (served here before, and therefore listed)"
		}
		gone = append(gone, version)
	}
	if len(gone) > 0 {
		parts = append(parts, "gone: "+firstNames(gone, 20))
	}
	if len(parts) == 0 {
		parts = append(parts, "unchanged, "+count(m.Versions, "version"))
	}
	return m.Module + ": " + strings.Join(parts, "; ") + "\n"
}

// firstNames has the first names of a list, at most so many, and says how many more there are.
func firstNames(list []string, most int) string {
	more := ""
	if n := len(list) - most; n > 0 {
		list, more = list[:most], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(list, ", ") + more
}
