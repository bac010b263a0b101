package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/tfconfig"
)

// forecast is the effect of rules on an installation.
type forecast struct {
	Versions int                    `json:"versions"` // that would be installed without refusals
	Refused  int                    `json:"refused"`  // of these, refused
	By       map[policy.Outcome]int `json:"by_outcome"`
	list     []foreseen
}

// foreseen is the forecast for one version and some clients.
type foreseen struct {
	admin.ForecastItem                   // without the client
	Clients            []tfconfig.Client `json:"clients"`
}

// forecast prints the versions that rules would refuse among those that directories install, directly and through modules.
func (env *environment) forecast(ctx context.Context, in admin.ReportRequest, read directoryFlags, dirs []string) error {
	starts, failed, err := read.starts(ctx, env, dirs...)
	if err != nil {
		return err
	}
	found := map[string]*foreseen{}
	_, err = ask(ctx, env, admin.PolicyForecast, admin.ForecastRequest{ReportRequest: in, Starts: starts}, func(f admin.ForecastItem) error {
		client, key := f.Client, fmt.Sprint(f.Name, f.Refused, f.Instead, f.Bypass, f.Problem)
		if f.Bypass != "" || f.Problem != "" {
			key += fmt.Sprint(f.From)
		}
		if f.Client = ""; found[key] == nil {
			found[key] = &foreseen{ForecastItem: f}
		}
		if one := found[key]; !slices.Contains(one.Clients, client) {
			one.Clients = append(one.Clients, client)
			slices.Sort(one.Clients)
		}
		return nil
	})
	if err != nil {
		return err
	}
	out := forecast{By: map[policy.Outcome]int{}}
	for _, f := range found {
		out.list = append(out.list, *f)
	}
	slices.SortFunc(out.list, func(a, b foreseen) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Version, b.Version), slices.Compare(a.From, b.From), cmp.Compare(a.Problem, b.Problem))
	})
	installed := map[versionname.Name]bool{}
	for _, f := range out.list {
		switch {
		case f.Problem != "":
			failed = append(failed, errors.New(printable(f.place()+": "+f.Problem)))
		case f.Refused:
			out.Refused++
			out.By[f.Outcome]++
			if f.Instead != "" {
				installed[versionname.Name{Module: f.Module, Version: f.Instead}] = true
			}
		case f.Bypass == "":
			installed[f.Name] = true
		}
	}
	out.Versions = len(installed)
	for _, one := range out.list {
		if err := env.item(one, ""); err != nil {
			return err
		}
	}
	if err := env.end(out, out.text()); err != nil || len(failed) == 0 {
		return err
	}
	return failed
}

// place is the position of the last call that leads to f.
func (f foreseen) place() string {
	if len(f.From) == 0 {
		return f.Source
	}
	return f.From[len(f.From)-1]
}

// text is a table of refused versions, with a line for each call that bypasses the proxy and a line of totals.
func (f forecast) text() string {
	out, table := newTable()
	if f.Refused > 0 {
		fmt.Fprintln(out, "MODULE\tVERSION\tOUTCOME\tINSTEAD\tRULE\tCALLED AT")
	}
	for _, one := range f.list {
		if one.Refused {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", one.Module, cmp.Or(one.Version, "any"), one.Outcome, cmp.Or(one.Instead, "nothing"),
				printable(cmp.Or(one.Place, "-")), printable(one.place()))
		}
	}
	var b strings.Builder
	b.WriteString(table())
	bypasses := 0
	for _, one := range f.list {
		if one.Bypass != "" {
			bypasses++
			fmt.Fprintf(&b, "past modproxy: %s\n", printable(strings.TrimSpace(one.Source+" at "+one.place())+": "+one.Bypass))
		}
	}
	fmt.Fprintf(&b, "%s; %s past modproxy\n", countsText(count(f.Versions, "version")+" would be installed", f.Refused, f.By), count(bypasses, "call"))
	return b.String()
}
