package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
)

// removal is what "modproxy rm" asks for, and removedPackages what it is told.
type (
	removal struct {
		Module  string `json:"module"`
		Version string `json:"version,omitempty"` // empty: all
	}
	removedPackages struct {
		Packages []removedPackage `json:"packages"`
	}
	removedPackage struct {
		Module  string       `json:"module"`
		Version string       `json:"version"`
		Size    int64        `json:"size_bytes"`
		Sum     modproxy.Sum `json:"sum"`
		There   bool         `json:"there"`            // it was there
		Shared  []string     `json:"shared,omitempty"` // what else needs its bytes, which therefore stay
	}
)

func (s *storage) remove(w http.ResponseWriter, r *http.Request) error {
	var in removal
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	m, err := parseModule(in.Module, "")
	if err == nil && in.Version != "" {
		in.Version, err = modproxy.CanonicalVersion(in.Version)
	}
	if err != nil {
		return err
	}
	list, err := s.cache.Discard(r.Context(), m, in.Version)
	if err != nil {
		return err
	}
	var out removedPackages
	for _, d := range list {
		out.Packages = append(out.Packages, removedPackage{d.Module.String(), d.Version, d.Record.Size, d.Record.Sum, d.There, d.Shared})
	}
	return writeJSON(w, out)
}

func newRmCommand(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rm MODULE [VERSION]",
		Short: "Remove the package of one version, or of all versions, of a module",
		Long: `Remove the bytes of a package, unless another version has the same content. The
ledger keeps its record: modproxy fetches the package again when a client asks for
it, and refuses it if it differs ("modproxy ledger accept" accepts other content).

MODULE is a module address; without its hostname, one of the first upstream. Without
VERSION, the packages of all its versions are removed.`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := env.settings()
			if err != nil {
				return err
			}
			q, err := choose(c, args)
			if err != nil {
				return err
			}
			return withAPI(cmd.Context(), c, openStorage, func(a *api) error {
				var out removedPackages
				if err := a.ask(cmd.Context(), "POST", "/-/api/packages/remove", removal{q.module.String(), q.version}, &out); err != nil {
					return err
				}
				if asJSON {
					return printLines(env.stdout, out.Packages)
				}
				return env.printRemoved(out)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON, one package in a line: {"module": …, "version": …, "there": …, …}`)
	return cmd
}

func (env *environment) printRemoved(out removedPackages) error {
	for _, p := range out.Packages {
		what := "removed " + sizeText(p.Size)
		switch {
		case !p.There:
			what = "was not there"
		case len(p.Shared) > 0:
			what = fmt.Sprintf("removed; its %s stay for %s, which has the same content", sizeText(p.Size), strings.Join(p.Shared, ", "))
		}
		_, err := fmt.Fprintf(env.stdout, "%s %s: %s; when it is fetched again it must be %s\n", p.Module, p.Version, what, p.Sum)
		if err != nil {
			return err
		}
	}
	return nil
}
