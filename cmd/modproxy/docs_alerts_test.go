package main_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// metricIn finds a metric of modproxy in an expression of Prometheus, with its labels.
var metricIn = regexp.MustCompile(`\b(modproxy_[a-z_]+)(?:\{([^}]*)\})?`)

// TestDocsAlerts checks that the metrics and labels exist that the rules for Prometheus in docs/how-to/monitoring.md name, and that the
// page explains each alert.
func TestDocsAlerts(t *testing.T) {
	reference := readPage(t, "docs/reference/metrics.md")
	p := readPage(t, "docs/how-to/monitoring.md")
	blocks := p.blocks()
	i := slices.IndexFunc(blocks, func(b codeBlock) bool { return b.marker == "file of: Prometheus, rules" })
	if i < 0 {
		t.Fatal("the page has no rules")
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct{ Alert, Expr, For string }
		}
	}
	if err := yaml.UnmarshalWithOptions([]byte(strings.Join(blocks[i].lines, "\n")), &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	prose, metrics := strings.Join(p.prose(), "\n"), 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if !strings.Contains(prose, "`"+rule.Alert+"`") {
				t.Errorf("the page does not explain %s", rule.Alert)
			}
			for _, m := range metricIn.FindAllStringSubmatch(rule.Expr, -1) {
				metrics++
				row := slices.IndexFunc(reference.lines, func(line string) bool { return strings.HasPrefix(line, "| `"+m[1]+"` |") })
				if row < 0 {
					t.Errorf("%s: modproxy has no metric %s", rule.Alert, m[1])
					continue
				}
				for matcher := range strings.SplitSeq(m[2], ",") {
					label, _, _ := strings.Cut(matcher, "=")
					if label != "" && !strings.Contains(reference.lines[row], "`"+label+"`") {
						t.Errorf("%s: %s has no label %s", rule.Alert, m[1], label)
					}
				}
			}
		}
	}
	if metrics < 10 {
		t.Errorf("%d metrics were found", metrics)
	}
}
