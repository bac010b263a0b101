package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// half is an unfinished configuration. The language server must offer the names of the module's inputs in its empty
// line.
const half = "module \"network\" {\n  source  = \"acme/network/aws\"\n  version = \"1.1.0\"\n\n}\n"

// completes checks that a language server offers the inputs of a module that is not installed.
func completes(ctx context.Context, s *session) error {
	name, err := s.write("open/main.tf", half)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	r, err := talkTo(s.command(ctx, "open", "", s.program, "serve"), true)
	if err != nil {
		return err
	}
	defer r.end()
	dir := "file://" + strings.TrimSuffix(name, "/main.tf")
	err = r.call("initialize", map[string]any{
		"rootUri": dir, "workspaceFolders": []any{map[string]any{"uri": dir, "name": "open"}}, "capabilities": map[string]any{},
	}, &struct{}{})
	if err != nil {
		return err
	}
	if err := r.notify("initialized", map[string]any{}); err != nil {
		return err
	}
	document := map[string]any{"uri": "file://" + name, "languageId": "terraform", "version": 1, "text": half}
	if err := r.notify("textDocument/didOpen", map[string]any{"textDocument": document}); err != nil {
		return err
	}
	for {
		var offered struct {
			Items []struct{ Label, Detail string }
		}
		at := map[string]any{"textDocument": document, "position": map[string]any{"line": 3, "character": 0}}
		if err := r.call("textDocument/completion", at, &offered); err != nil {
			return err
		}
		var labels []string
		for _, item := range offered.Items {
			labels = append(labels, item.Label+" ("+item.Detail+")")
		}
		// It parses only types without parentheses.
		want := []string{"cidr (required, string)", "zones (optional, any type)"}
		missing := slices.DeleteFunc(want, func(label string) bool { return slices.Contains(labels, label) })
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not offer %q, but %q", missing, labels)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
