// Command lint checks that switches over kinds are exhaustive. "go vet -vettool" runs it, and caches its results by package.
package main

import (
	"github.com/nishanths/exhaustive"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() { unitchecker.Main(exhaustive.Analyzer) }
