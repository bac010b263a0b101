package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/protocol"
	"github.com/modproxy/modproxy/proxy"
)

// httpPage is the page of the HTTP interface, relative to this directory.
const httpPage = "../../docs/reference/http.md"

// endpointBlock matches a table of endpoints, with the comments around it.
var endpointBlock = regexp.MustCompile(`(?s)<!-- begin endpoints: ([^>\n]+) -->\n(.*?)<!-- end endpoints -->\n`)

// TestReferenceHTTP compares the tables of the page of the HTTP interface with the endpoints. With -update it writes them.
func TestReferenceHTTP(t *testing.T) {
	name := filepath.Join(packageDir, httpPage)
	is, err := os.ReadFile(name)
	must(t, err)
	missing := map[string]string{}
	for _, p := range endpointGroups() {
		missing[p.Name] = endpointTable(t, p)
	}
	want := endpointBlock.ReplaceAllStringFunc(string(is), func(block string) string {
		group := endpointBlock.FindStringSubmatch(block)[1]
		table, ok := missing[group]
		if !ok {
			t.Errorf("%s: the table %q has no endpoints, or stands there twice", httpPage, group)
		}
		delete(missing, group)
		return "<!-- begin endpoints: " + group + " -->\n" + table + "<!-- end endpoints -->\n"
	})
	for group := range missing {
		t.Errorf("%s has no table %q: add <!-- begin endpoints: %s --> and <!-- end endpoints -->", httpPage, group, group)
	}
	if *update && !t.Failed() {
		must(t, os.WriteFile(name, []byte(want), 0o666))
	} else if string(is) != want {
		t.Errorf("%s differs from the endpoints of this program: %s writes them", httpPage, writtenHint)
	}
}

// endpointGroups returns all endpoints of a proxy, in groups.
func endpointGroups() []protocol.Protocol {
	operators := protocol.Protocol{Name: "operators"}
	for _, r := range (&admin.Server{}).Routes() {
		e := protocol.Endpoint{Kind: "api", Method: r.Method, Path: r.Path, About: r.About, Access: protocol.AccessOperator}
		if r.Refresh {
			e.Access = protocol.AccessRefresh
		}
		if r.Owner {
			e.Access = protocol.AccessOwner
		}
		operators.Endpoints = append(operators.Endpoints, e)
	}
	return append(protocol.Endpoints(), protocol.Protocol{Name: "modproxy", Endpoints: proxy.Endpoints()}, operators)
}

// endpointTable returns the table of a group.
func endpointTable(t *testing.T, p protocol.Protocol) string {
	var b strings.Builder
	b.WriteString("| request | kind | | needs |\n|---|---|---|---|\n")
	for _, e := range p.Endpoints {
		if e.Method == "" || e.Kind == "" || e.About == "" || e.Access == "" {
			t.Errorf("the endpoint %+v lacks a field", e)
		}
		fmt.Fprintf(&b, "| `%s %s` | `%s` | %s | %s |\n", e.Method, e.Path, e.Kind, e.About, e.Access)
	}
	return b.String()
}
