package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/cache/disk"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/proxy"
)

func newLedgerAcceptCommand(env *environment) *cobra.Command {
	var sum, subdir, reason string
	cmd := &cobra.Command{
		Use:   "accept MODULE VERSION --sum h1:… [--subdir DIR] --reason TEXT",
		Short: "Accept other content for a version from now on",
		Long: `Add a record: from now on the version has the content of --sum, and the reason is
kept with it for good. What was kept of the version is no longer served; modproxy
fetches it again, and it must match. "modproxy ledger drift" prints what was
offered.

The first record stays in the ledger, and so does this one.`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := env.settings()
			if err != nil {
				return err
			}
			q, err := choose(c, args)
			if err != nil {
				return err
			}
			if sum == "" || reason == "" {
				return misuse{hint.With(errors.New("--sum and --reason must be said"), `"modproxy ledger drift" prints the sums`)}
			}
			return withAPI(cmd.Context(), c, openOldLedger, func(a *api) error {
				var out accepted
				in := acceptance{q.module.String(), q.version, modproxy.Sum(sum), subdir, reason}
				if err := a.ask(cmd.Context(), "POST", "/-/api/ledger/accept", in, &out); err != nil {
					return err
				}
				return env.printAccepted(in, out)
			})
		},
	}
	cmd.Flags().StringVar(&sum, "sum", "", "the `sum` of the content: h1: and base64")
	cmd.Flags().StringVar(&subdir, "subdir", "", "the module's `directory` in the package, \".\" for all of it (the one that was offered)")
	cmd.Flags().StringVar(&reason, "reason", "", "one line of `text`: why the change is accepted, and by whom")
	return cmd
}

func (env *environment) printAccepted(in acceptance, out accepted) error {
	text := fmt.Sprintf("%s %s is %s from now on; it was %s.\n", in.Module, in.Version, in.Sum, out.Before)
	switch {
	case out.Before == in.Sum && out.Subdir != "":
		text = fmt.Sprintf("%s %s is in the directory %s from now on.\n", in.Module, in.Version, out.Subdir)
	case out.Before == in.Sum:
		text = fmt.Sprintf("%s %s is %s already.\n", in.Module, in.Version, in.Sum)
	case !out.Offered:
		text += "No upstream has offered this content yet: until one does, the version cannot be fetched.\n"
	}
	_, err := fmt.Fprint(env.stdout, text)
	return err
}

func newLedgerExportCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "export FILE",
		Short: "Write the whole ledger to a file",
		Long: `Write all records, and the signed head that proves them and their order. "-" is
standard output. The file does not contain the private key: to keep the ledger's
identity, back up its directory.`,
		Args: arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return env.readLedger(func(_ *config.Config, book *ledger.Log) error {
				if args[0] == "-" {
					return book.Export(env.stdout)
				}
				if err := publishFile(args[0], 0o600, book.Export); err != nil {
					return err
				}
				_, err := fmt.Fprintf(env.stdout, "%d records and observations are in %s.\n", book.Tree().N, args[0])
				return err
			})
		},
	}
}

func newLedgerImportCommand(env *environment) *cobra.Command {
	var keys []string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Add the records of an export",
		Long: `Add the records of an export that the ledger lacks; "-" is standard input. One of
the two must be the beginning of the other: an export with another record in the
same place is refused, and nothing is added.

An export of another ledger is signed with that ledger's key, which --key must name.
"modproxy ledger key" prints it where that ledger is.`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			c, err := env.settings()
			if err != nil {
				return err
			}
			if _, err := verifiers(keys); err != nil {
				return misuse{fmt.Errorf("--key: %w", err)}
			}
			from := io.NopCloser(env.stdin)
			if args[0] != "-" {
				if from, err = os.Open(args[0]); err != nil {
					return err
				}
				defer from.Close()
			}
			return withAPI(cmd.Context(), c, openLedger, func(a *api) error {
				added, err := importLedger(cmd.Context(), a, from, keys)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(env.stdout, "%d records and observations were added.\n", added)
				return err
			})
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "another verifier `key` to accept, besides the ledger's own")
	return cmd
}

func importLedger(ctx context.Context, a *api, from io.Reader, keys []string) (added int64, err error) {
	var out struct{ Added int64 }
	err = a.ask(ctx, "POST", "/-/api/ledger/import?"+url.Values{"key": keys}.Encode(), from, &out)
	return out.Added, err
}

func newLedgerInitCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Begin a new ledger if the old one was lost",
		Long: `Begin a new ledger with the kept packages. All other records of the lost ledger are
forgotten: such a version will be what it contains when it is next seen. If you have
a backup or an export, restore or import that instead.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.settings()
			if err != nil {
				return err
			}
			return withAPI(cmd.Context(), c, openNothing, func(a *api) error {
				var out struct{ Added int64 }
				if err := a.ask(cmd.Context(), "POST", "/-/api/ledger/init", nil, &out); err != nil {
					return err
				}
				_, err := fmt.Fprintf(env.stdout, "A ledger of %d records was begun.\n", out.Added)
				return err
			})
		},
	}
}

// openOldLedger is openLedger where there must be one.
func openOldLedger(c *config.Config) ([]proxy.Mount, func() error, error) {
	if err := haveLedger(c); err != nil {
		return nil, nil, err
	}
	return openLedger(c)
}

// openLedger makes the API of the ledger while modproxy does not serve. An index
// that is lost or damaged does not hinder it, nor does a ledger that is not there
// yet: an import fills it.
func openLedger(c *config.Config) ([]proxy.Mount, func() error, error) {
	book, err := ledger.Open(c.LedgerDir(), "")
	if err != nil {
		return nil, nil, err
	}
	return ledgerMounts(book, func(modproxy.Module, string) {}), book.Close, nil
}

// openNothing makes what begins a ledger.
func openNothing(c *config.Config) ([]proxy.Mount, func() error, error) {
	begin := func(w http.ResponseWriter, _ *http.Request) error {
		added, err := beginLedger(c)
		if err != nil {
			return err
		}
		return writeJSON(w, map[string]int64{"added": added})
	}
	return []proxy.Mount{{Method: "POST", Path: "/-/api/ledger/init", Kind: "api", Handle: begin}}, func() error { return nil }, nil
}

// beginLedger makes a ledger of the kept packages, where there is none or one of
// which that was begun. It is how many records that has then.
func beginLedger(c *config.Config) (records int64, err error) {
	store, err := disk.Open(c.Data)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	book, err := ledger.Open(c.LedgerDir(), "")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	before := book.Tree().N
	if err := onlyBegun(book, store); err != nil {
		return 0, err
	}
	for kept, err := range store.Packages(modproxy.Module{}) {
		if err == nil {
			err = book.Add(app.RecordOf(kept.Module, kept.Version, kept.Record))
		}
		if err != nil {
			return 0, fmt.Errorf("%s %s: %w", kept.Module, kept.Version, err)
		}
	}
	records = book.Tree().N
	if before > 0 && records == before {
		return 0, errHasLedger
	}
	return records, nil
}

// onlyBegun is nil for a ledger that has no record but those that beginLedger makes.
func onlyBegun(book *ledger.Log, store *disk.Store) error {
	for r, err := range book.All() {
		if err != nil {
			return err
		}
		kept, err := store.Package(r.Module, r.Version)
		if err != nil || !r.Is(kept.Sum, kept.Subdir) {
			return errHasLedger
		}
	}
	return nil
}

var errHasLedger = fmt.Errorf("%w: there is a ledger already", modproxy.ErrInvalid)

// publishFile writes a file as a whole, durably. When it fails what was there still
// is, unless it is the directory that cannot be flushed.
func publishFile(name string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // 0600
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no directory %s", filepath.Dir(name))
	}
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return flushDir(filepath.Dir(name))
}

// flushDir makes the names in a directory durable, where directories can be flushed.
func flushDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	if err = f.Sync(); errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
