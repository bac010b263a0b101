package main

import (
	"fmt"
	"strings"
)

// The configuration of the mirror part calls six modules. Each of them calls three of five others, and each of those calls four of
// twelve more: 96 calls of 23 packages. Each of the three steps is known when the packages of the step before are read.
var nestedLevels = []struct {
	name         string
	count, calls int // modules, and the number of calls of the next level in each
}{{"top", 6, 3}, {"middle", 5, 4}, {"leaf", 12, 0}}

// nestedCalls are the names of the modules that one of a level calls, by its number.
func nestedCalls(level, i int) (names []string) {
	if level+1 == len(nestedLevels) {
		return nil
	}
	l, next := nestedLevels[level], nestedLevels[level+1]
	for n := range l.calls {
		// Each module begins where the one before it ended, so that all modules of the next level are called, if possible.
		names = append(names, fmt.Sprint(next.name, (i*l.calls+n)%next.count))
	}
	return names
}

func nestedModule(name string) module { return module{"acme", name, "1.0.0"} }

// nestedRepositories have the modules of all levels.
func nestedRepositories() (all []*repository) {
	for level, l := range nestedLevels {
		for i := range l.count {
			all = append(all, &repository{
				name: fmt.Sprint(l.name, i), files: 40, commits: 40, seed: uint64(100 + len(all)),
				versions: []string{"1.0.0"}, calls: nestedBlocks(nestedCalls(level, i)),
			})
		}
	}
	return all
}

// nestedBlocks are the blocks that call modules, by their names.
func nestedBlocks(names []string) string {
	var code strings.Builder
	for i, name := range names {
		fmt.Fprintf(&code, "module \"m%d\" {\n  %s\n}\n", i, sourceOf(i, nestedModule(name)))
	}
	return code.String()
}

// nestedTop are the modules that the configuration itself calls.
func nestedTop() (all []module) {
	for i := range nestedLevels[0].count {
		all = append(all, nestedModule(fmt.Sprint(nestedLevels[0].name, i)))
	}
	return all
}
