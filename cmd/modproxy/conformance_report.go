package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy/conformance"
)

// conformanceReport prints the results of a run.
type conformanceReport struct {
	*environment
	options  conformance.Options
	markdown bool
	time     time.Time // when the run began
	all      []conformance.Finding
}

// run tries the registry. If it ends early, for example by a signal, it prints the clients that were tried so far.
func (r *conformanceReport) run(ctx context.Context) error {
	if err := r.begin(); err != nil {
		return err
	}
	err := conformance.Run(ctx, r.options, func(f conformance.Finding) error {
		r.all = append(r.all, f)
		return r.print(f)
	})
	if printed := r.end(err != nil); err == nil {
		err = printed
	}
	if err != nil {
		return err
	}
	return r.verdict()
}

// title is the first line of a report: the registry and the date of the run.
func (r *conformanceReport) title() string {
	return fmt.Sprintf("Conformance of %s, %s", printable(r.options.URL.Redacted()), r.time.UTC().Format("2006-01-02 15:04 UTC"))
}

// Columns of the table of verdicts. They are fixed, because the first lines are printed before the last ones are known.
const conformanceColumns = "%-20s  %-20s  %-7s  %s\n"

func (r *conformanceReport) begin() error {
	switch {
	case r.json():
		return nil
	case r.markdown:
		return r.printf("# %s\n\n", r.title())
	}
	return r.printf("%s\n\n"+conformanceColumns, r.title(), "CLIENT", "RULE", "VERDICT", "SEEN")
}

func (r *conformanceReport) print(f conformance.Finding) error {
	switch {
	case r.json():
		return r.item(f, "")
	case r.markdown:
		return nil
	}
	return r.printf(conformanceColumns, f.Client, f.Rule, f.Verdict, r.seen(f))
}

// seen formats a finding, with the module if there are several.
func (r *conformanceReport) seen(f conformance.Finding) string {
	if len(r.options.Modules) > 1 {
		return printable(f.Module + ": " + f.Seen)
	}
	return printable(f.Seen)
}

// end prints the clients and the failed rules. If the run ended early, the last client was not tried with every rule.
func (r *conformanceReport) end(early bool) error {
	switch {
	case r.json() && early:
		return nil // the object stays open
	case r.json():
		n := r.counts()
		return r.environment.end(map[string]int{"pass": n[conformance.Pass], "fail": n[conformance.Fail], "warn": n[conformance.Warn],
			"not_applicable": n[conformance.Without]}, "")
	case len(r.all) == 0:
		return nil
	}
	if !r.markdown {
		return r.printf("%s\n%s", r.wants(), r.clients(early))
	}
	text := "| client | version | | rules that fail or warn |\n|---|---|---|---|\n"
	for _, c := range r.byClient() {
		text += fmt.Sprintf("| %s | %s | %s | %s |\n", c.name, c.version, r.outcome(c, early), strings.Join(c.rules, ", "))
	}
	bad := r.bad()
	if len(bad) > 0 {
		text += "\n## What does not pass\n\n| client | rule | | wanted | seen | file |\n|---|---|---|---|---|---|\n"
	}
	cell := strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'")
	for _, f := range bad {
		text += fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n",
			f.Client, f.Rule, f.Verdict, cell.Replace(f.Wants), cell.Replace(r.seen(f)), cell.Replace(f.File))
	}
	return r.printf("%s", text)
}

// clientResult is what comes of one client.
type clientResult struct {
	name, version string
	fails, warns  int
	rules         []string // that fail or warn, each once
}

func (r *conformanceReport) byClient() (all []*clientResult) {
	for _, f := range r.all {
		i := slices.IndexFunc(all, func(c *clientResult) bool { return c.name == f.Client })
		if i < 0 {
			i, all = len(all), append(all, &clientResult{name: f.Client, version: f.Version})
		}
		switch c := all[i]; f.Verdict {
		case conformance.Fail:
			c.fails++
			c.add(f.Rule)
		case conformance.Warn:
			c.warns++
			c.add(f.Rule)
		case conformance.Pass, conformance.Without:
		}
	}
	return all
}

func (c *clientResult) add(rule string) {
	if !slices.Contains(c.rules, rule) {
		c.rules = append(c.rules, rule)
	}
}

// outcome says in a word or two whether a client can work with the registry.
func (r *conformanceReport) outcome(c *clientResult, early bool) string {
	switch {
	case c.fails > 0:
		return "fails"
	case early && c.name == r.all[len(r.all)-1].Client:
		return "not tried to the end"
	case c.warns > 0:
		return "works with warnings"
	}
	return "works"
}

// clients returns a line for each client.
func (r *conformanceReport) clients(early bool) (lines string) {
	for _, c := range r.byClient() {
		line := fmt.Sprintf("%-20s  %-8s  %s: %s", c.name, c.version, r.outcome(c, early), strings.Join(c.rules, ", "))
		lines += strings.TrimSuffix(line, ": ") + "\n"
	}
	return lines
}

// bad returns the findings that did not pass, the first of each client and rule.
func (r *conformanceReport) bad() (bad []conformance.Finding) {
	for _, f := range r.all {
		same := func(g conformance.Finding) bool { return f.Client == g.Client && f.Rule == g.Rule }
		if (f.Verdict == conformance.Fail || f.Verdict == conformance.Warn) && !slices.ContainsFunc(bad, same) {
			bad = append(bad, f)
		}
	}
	return bad
}

// wants returns what the rules want that did not pass, with the files of the clients.
func (r *conformanceReport) wants() (wants string) {
	for _, f := range r.bad() {
		wants += fmt.Sprintf("\n%s %s: %s\n  by %s, of %s\n", f.Client, f.Rule, f.Wants, f.File, f.Version)
	}
	return wants
}

// counts returns how many verdicts of each kind there were.
func (r *conformanceReport) counts() map[conformance.Verdict]int {
	n := map[conformance.Verdict]int{}
	for _, f := range r.all {
		n[f.Verdict]++
	}
	return n
}

// verdict prints how many verdicts there were, and returns an error if a rule fails.
func (r *conformanceReport) verdict() error {
	n := r.counts()
	fmt.Fprintf(r.stderr, "%d pass, %d fail, %d warn, %d n/a\n",
		n[conformance.Pass], n[conformance.Fail], n[conformance.Warn], n[conformance.Without])
	if failed := n[conformance.Fail]; failed > 0 {
		first := r.all[slices.IndexFunc(r.all, func(f conformance.Finding) bool { return f.Verdict == conformance.Fail })]
		return fmt.Errorf("rules fail %s, the first time %s for %s: %s", count(failed, "time"), first.Rule, first.Client, first.Seen)
	}
	return nil
}
