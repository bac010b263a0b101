package tfconfig

import (
	"path"
	"slices"
	"strings"
)

// Names of configuration files end in one of these. The forms of OpenTofu follow those of both clients.
var (
	modulesEnd = []string{".tf", ".tf.json", ".tofu", ".tofu.json"}
	testsEnd   = []string{".tftest.hcl", ".tftest.json", ".tofutest.hcl", ".tofutest.json"}
)

// ending returns which of endings a file's name has, or -1.
func ending(name string, endings []string) int {
	base := path.Base(name)
	switch emacs := strings.HasPrefix(base, "#") && strings.HasSuffix(base, "#"); {
	case emacs, strings.HasSuffix(base, "~"), strings.HasPrefix(base, "."):
		return -1 // left behind by an editor, or hidden
	}
	return slices.IndexFunc(endings, func(end string) bool { return strings.HasSuffix(base, end) })
}

// isConfiguration reports whether some client may read a file of this name.
func isConfiguration(name string) bool { return ending(name, modulesEnd) >= 0 || isTest(name) }

// isTest reports whether a file in the directory tests may be one of some client: for Terraform, from 1.15 on, also if it is
// hidden.
func isTest(name string) bool {
	return ending(name, testsEnd) >= 0 || strings.HasSuffix(name, testsEnd[0]) || strings.HasSuffix(name, testsEnd[1])
}

// tests returns those of the names of files in the directory tests that c reads, sorted.
func (c Client) tests(names []string) (list []string) {
	if c != Terraform {
		return c.read(names, testsEnd)
	}
	for _, name := range names {
		if strings.HasSuffix(name, testsEnd[0]) || strings.HasSuffix(name, testsEnd[1]) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// read returns those of names with one of endings that c reads, sorted.
func (c Client) read(names, endings []string) (list []string) {
	for _, name := range names {
		i := ending(name, endings)
		switch {
		case i < 0, c == Terraform && i >= 2:
			continue
		case c == OpenTofu && i < 2 && slices.Contains(names, strings.TrimSuffix(name, endings[i])+endings[i+2]):
			continue // there is a form of it for OpenTofu
		}
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// isOverride reports whether a file of a module goes on top of others.
func isOverride(name string) bool {
	base := strings.TrimSuffix(path.Base(name), modulesEnd[ending(name, modulesEnd)])
	return base == "override" || strings.HasSuffix(base, "_override")
}
