package main

import (
	"bytes"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/internal/clean"
)

// Every verb that prints data has the flag --json, and prints one JSON object with it:
//
//	{"items":[
//	{"module":"registry.terraform.io/acme/vpc/aws","version":"1.0.0",…},
//	{"module":"registry.terraform.io/acme/vpc/aws","version":"1.1.0",…}
//	],"summary":{"versions":2,"bytes":73728}}
//
// "items" is the list of results, each an object in a line of its own. A verb with one result has a list of one. "summary" is
// about all items; a verb without totals leaves it out. Names are in snake_case. Names that come from data, such as those of
// platforms and outcomes, stay as they are.
//
// The object is written while the results arrive. A verb that fails before its last item does not close the object, so that no
// parser takes a part for the whole. Errors and remarks are on standard error, with and without --json.

// jsonOutput is the state of the object that a verb prints with --json.
type jsonOutput struct{ begun bool }

// withJSON adds the flag --json to cmd. items names the keys of an item, and summary those of the summary, if the verb has one.
func withJSON(cmd *cobra.Command, items, summary string) *cobra.Command {
	shape := `print JSON: {"items": [{` + items + `}, …]`
	if summary != "" {
		shape += `, "summary": {` + summary + `}`
	}
	cmd.Flags().Bool("json", false, shape+"}")
	return cmd
}

// json reports whether --json is given.
func (env *environment) json() bool {
	flag := env.flags.Lookup("json") // serve and help do not have the flag
	return flag != nil && flag.Value.String() == "true"
}

// printer returns a function that prints one of several results with item.
func printer[T any](env *environment, text func(T) string) func(T) error {
	return func(v T) error { return env.item(v, text(v)) }
}

// item prints one of several results: v with --json, otherwise text. The caller ends the output with end.
func (env *environment) item(v any, text string) error {
	if !env.json() {
		return env.printf("%s", text)
	}
	lead := ",\n"
	if !env.output.begun {
		lead, env.output.begun = "{\"items\":[\n", true
	}
	doc, err := encode(v)
	if err != nil {
		return err
	}
	return env.printf("%s%s", lead, doc)
}

// end ends the output of item: with summary, which may be nil, for --json; otherwise with text.
func (env *environment) end(summary any, text string) error {
	if !env.json() {
		return env.printf("%s", text)
	}
	tail := "\n]"
	if !env.output.begun {
		tail = `{"items":[]`
	}
	if summary != nil {
		doc, err := encode(summary)
		if err != nil {
			return err
		}
		tail += `,"summary":` + string(doc)
	}
	return env.printf("%s}\n", tail)
}

// print prints the only result of a verb: v with --json, otherwise text.
func (env *environment) print(v any, text string) error {
	if err := env.item(v, text); err != nil {
		return err
	}
	return env.end(nil, "")
}

// encode returns v as one line of JSON that is safe to print on a terminal.
func encode(v any) ([]byte, error) {
	var doc bytes.Buffer
	out := json.NewEncoder(&doc)
	out.SetEscapeHTML(false)
	if err := out.Encode(v); err != nil {
		return nil, err
	}
	return clean.JSON(bytes.TrimSpace(doc.Bytes())), nil
}
