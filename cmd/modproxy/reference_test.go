package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The reference of the command line, relative to this directory.
const (
	manDir      = "../../docs/man"
	cliPage     = "../../docs/reference/cli.md"
	writtenHint = "go test ./cmd/modproxy -run TestReference -update"
)

// TestReference compares the man pages and the page of the command line with the commands. With -update it writes them.
func TestReference(t *testing.T) {
	root := newRootCommand(&environment{})
	want := map[string]string{filepath.Base(cliPage): cliReference(root)}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		want[manName(cmd)+".1"] = manPage(cmd)
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
	file := func(name string) string {
		if name == filepath.Base(cliPage) {
			return filepath.Join(packageDir, cliPage)
		}
		return filepath.Join(packageDir, manDir, name)
	}
	old, err := filepath.Glob(file("*.1"))
	must(t, err)
	for _, name := range old {
		if _, ok := want[filepath.Base(name)]; ok {
			continue
		}
		if *update {
			must(t, os.Remove(name))
		} else {
			t.Errorf("%s is of no verb: %s removes it", name, writtenHint)
		}
	}
	for name, text := range want {
		if *update {
			must(t, os.MkdirAll(filepath.Dir(file(name)), 0o777))
			must(t, os.WriteFile(file(name), []byte(text), 0o666))
		}
		if is, err := os.ReadFile(file(name)); err != nil || string(is) != text {
			t.Errorf("%s is not what the commands say (%v): %s writes it", name, err, writtenHint)
		}
	}
}

// manName returns the name of the man page of a command: modproxy-policy-report.
func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// usages returns the usage lines of a command: its own, and that for its verbs.
func usages(cmd *cobra.Command) (all []string) {
	if _, group := cmd.Annotations[isGroup]; !group && cmd.HasParent() {
		all = append(all, cmd.UseLine())
	}
	if cmd.HasSubCommands() {
		all = append(all, cmd.CommandPath()+" VERB")
	}
	return all
}

// flagsOf returns the flags of a command, each with its form and its description.
func flagsOf(cmd *cobra.Command) (all [][2]string) {
	cmd.InitDefaultHelpFlag()
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		flag := "--" + f.Name
		if f.Shorthand != "" {
			flag = "-" + f.Shorthand + ", " + flag
		}
		if value != "" {
			flag += " " + value
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		all = append(all, [2]string{flag, usage})
	})
	return all
}

// manPage returns the man page of a command, by man-pages(7). It has no date, so that it changes only with the command.
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".\\\" %s writes this file.\n", writtenHint)
	fmt.Fprintf(&b, ".TH %s 1 \"\" modproxy \"modproxy manual\"\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(manName(cmd))), roff(manName(cmd)), roff(cmd.Short))
	b.WriteString(".SH SYNOPSIS\n.nf\n")
	for _, usage := range usages(cmd) {
		b.WriteString(roff(usage) + "\n")
	}
	b.WriteString(".fi\n")
	if cmd.Long != "" {
		b.WriteString(".SH DESCRIPTION\n")
		for i, text := range strings.Split(strings.TrimSpace(cmd.Long), "\n\n") {
			if i > 0 {
				b.WriteString(".PP\n")
			}
			if strings.HasPrefix(text, "  ") {
				text = ".nf\n" + roff(text) + "\n.fi"
			} else {
				text = roff(text)
			}
			b.WriteString(text + "\n")
		}
	}
	b.WriteString(".SH OPTIONS\n")
	for _, f := range flagsOf(cmd) {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(f[0]), roff(f[1]))
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(cmd.Example))
	}
	var related []string
	if cmd.HasParent() {
		related = append(related, manName(cmd.Parent()))
	}
	for _, c := range cmd.Commands() {
		related = append(related, manName(c))
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, name := range related {
		end := ","
		if i == len(related)-1 {
			end = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(name), end)
	}
	return b.String()
}

// roff escapes text for a man page, so that no line is a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "~", `\(ti`, "^", `\(ha`, "…", `\[u2026]`, "–", `\[en]`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// cliReference returns the page of all verbs, in the order of the help.
func cliReference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("<!-- " + writtenHint + " writes this page. -->\n\n# Command line\n\n")
	b.WriteString(markdown(root.Long) + "\n")
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "\n%s\n\n| verb | |\n|---|---|\n", markdown(group.Title))
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID {
				fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), manName(cmd), markdown(cmd.Short))
			}
		}
	}
	for _, group := range root.Groups() {
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID {
				writeVerb(&b, cmd)
			}
		}
	}
	return b.String()
}

// writeVerb writes the chapter of a command, and those of the verbs below it.
func writeVerb(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n```console\n%s\n```\n", cmd.CommandPath(), markdown(cmd.Short), strings.Join(usages(cmd), "\n"))
	if cmd.Long != "" {
		fmt.Fprintf(b, "\n%s\n", markdown(strings.TrimSpace(cmd.Long)))
	}
	if cmd.Example != "" {
		lines := strings.ReplaceAll("\n"+cmd.Example, "\n  ", "\n")
		fmt.Fprintf(b, "\n```console%s\n```\n", lines)
	}
	b.WriteString("\n| flag | |\n|---|---|\n")
	for _, f := range flagsOf(cmd) {
		fmt.Fprintf(b, "| `%s` | %s |\n", f[0], strings.ReplaceAll(markdown(f[1]), "|", `\|`))
	}
	for _, c := range cmd.Commands() {
		writeVerb(b, c)
	}
}

// markdown returns text as Markdown shows it as it is: paragraphs that are indented are code.
func markdown(text string) string {
	escape := strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "`", "\\`", "#", `\#`, "~", `\~`)
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if strings.HasPrefix(p, "  ") {
			paragraphs[i] = "```console\n" + strings.ReplaceAll(strings.TrimPrefix(p, "  "), "\n  ", "\n") + "\n```"
		} else {
			paragraphs[i] = escape.Replace(p)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
