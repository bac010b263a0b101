package tfconfig

import (
	"path"
	"slices"
	"strings"
)

// Endings of the names of configuration files. The endings of OpenTofu follow those of both clients, in the same order.
var (
	modulesEnd = []string{".tf", ".tf.json", ".tofu", ".tofu.json"}
	testsEnd   = []string{".tftest.hcl", ".tftest.json", ".tofutest.hcl", ".tofutest.json"}
)

// ending returns the index of the ending that a file's name has, or -1.
func ending(name string, endings []string) int {
	base := path.Base(name)
	switch emacs := strings.HasPrefix(base, "#") && strings.HasSuffix(base, "#"); {
	case emacs, strings.HasSuffix(base, "~"), strings.HasPrefix(base, "."):
		return -1 // a backup of an editor, or hidden
	}
	return slices.IndexFunc(endings, func(end string) bool { return strings.HasSuffix(base, end) })
}

// isConfiguration reports whether a client may read a file of this name.
func isConfiguration(name string) bool { return ending(name, modulesEnd) >= 0 || isTest(name) }

// isTest reports whether a client may read a file of this name in the directory tests. Terraform reads hidden files there since 1.15.
func isTest(name string) bool {
	return ending(name, testsEnd) >= 0 || strings.HasSuffix(name, testsEnd[0]) || strings.HasSuffix(name, testsEnd[1])
}

// tests returns the files in the directory tests that c reads, sorted.
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

// read returns the names with one of endings that c reads, sorted.
func (c Client) read(names, endings []string) (list []string) {
	for _, name := range names {
		i := ending(name, endings)
		switch {
		case i < 0, c == Terraform && i >= 2:
			continue
		case c == OpenTofu && i < 2 && slices.Contains(names, strings.TrimSuffix(name, endings[i])+endings[i+2]):
			continue // OpenTofu reads its own form instead
		}
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// isOverride reports whether a configuration file overrides others.
func isOverride(name string) bool {
	base := strings.TrimSuffix(path.Base(name), modulesEnd[ending(name, modulesEnd)])
	return base == "override" || strings.HasSuffix(base, "_override")
}
