// Package tfconfig reads Terraform and OpenTofu configurations in a child process with limits.
//
// # Use
//
// A program with a [Reader] calls [Child] first in main. [Reader.Read] reads a directory of a [Tree], which is the files of a
// package ([PackageTree]); [Reader.ReadDirectory] reads a directory on disk. Both return a [Configuration]: the calls of modules
// and the required providers. [Reader.Describe] returns what registries show of a module: variables, outputs, README.
//
// # What is read
//
// Reader.Read reads one directory and the directories that it calls by local sources (./x), as a client does
// (internal/configs/parser_config_dir.go of both clients): *.tf and *.tf.json; for OpenTofu also *.tofu and *.tofu.json, which
// replace a .tf file of the same name; files named override or …_override last, on top of the others; the run blocks of the root
// module's test files. It ignores files that editors leave behind, and everything else in the tree.
//
// OpenTofu evaluates sources and versions (internal/configs/static_evaluator.go): constants, locals, and variables with a value or a
// default. Terraform does so since 1.15 (internal/terraform/node_module_install.go), for variables with const; older versions
// accept literals only. Reader.Read evaluates both, with some functions. A value that is unknown before a plan comes with the
// reason. Reader.Read never guesses.
//
// # What always holds
//
// An error in a file is a [Problem], and the other files are read. Input beyond a limit is an error; nothing is cut.
//
// HCL from strangers is parsed in a child process only, because parsing can end the process: 100 KiB of nested brackets exhaust
// the stack (https://github.com/hashicorp/hcl/issues/809), and recover does not catch that. The child is this program. It has no
// environment, little memory and little time. If it dies, the error says why. No other package of modproxy parses HCL.
package tfconfig

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// A Client is a program that reads configurations in its own way.
type Client string

const (
	Terraform Client = "terraform"
	OpenTofu  Client = "tofu"
)

// DefaultHosts are the hostnames of the registries for sources without a hostname.
var DefaultHosts = map[Client]string{Terraform: "registry.terraform.io", OpenTofu: "registry.opentofu.org"}

// Configuration is what a directory calls and requires, with the directories that it calls by local sources.
type Configuration struct {
	// Calls are those that are not of directories of the tree, by directory and position. One of a directory that is
	// called twice is there twice if that makes a difference to it.
	Calls     []Call        `json:"calls,omitempty"`
	Providers []Requirement `json:"providers,omitempty"`
	// Variables are those of the directory that change sources and versions, sorted.
	Variables []string  `json:"variables,omitempty"`
	Locks     []Lock    `json:"locks,omitempty"`    // with Options.Tests, if the directory has a lock file
	Problems  []Problem `json:"problems,omitempty"` // what is said beside them may not be all
	Sources   []Source  `json:"sources,omitempty"`  // by file and position; with Problems, all that Options.Sources asks for

	CPU time.Duration `json:"-"` // processor time that reading it took now
}

// Call is a call of a module.
type Call struct {
	Pos
	From    []Pos  `json:"from,omitempty"` // the calls of directories that lead to it, outermost first
	Name    string `json:"name"`
	Source  string `json:"source,omitempty"`
	Version string `json:"version,omitempty"` // the constraint; empty for any
	// Dynamic says why Source or Version is not known. It is empty if both are.
	Dynamic string         `json:"dynamic,omitempty"`
	Args    map[string]Arg `json:"args,omitempty"`
	// Variable reports whether Source is made of variables, so that it may be another one where the module is called otherwise.
	Variable bool `json:"variable,omitempty"`
}

// Arg is an argument of a call: a value in JSON, or the reason why it is not known.
type Arg struct {
	Value   json.RawMessage `json:"value,omitempty"`
	Dynamic string          `json:"dynamic,omitempty"`
	// Inputs are the variables of the directory that the value depends on, sorted.
	Inputs []string `json:"of,omitempty"`

	// Skipped reports whether Reader.Read left the argument unevaluated, because one of its variables is not in Options.Passed.
	Skipped bool `json:"-"`
}

// Requirement is a provider that a module requires, or uses without saying so.
type Requirement struct {
	Pos
	Name    string `json:"name"`
	Source  string `json:"source"`            // as written; hashicorp/ and the name if it has none
	Version string `json:"version,omitempty"` // the constraint; empty for any
}

// Lock is what a dependency lock file says of a provider.
type Lock struct {
	Pos
	Source  string `json:"source"`
	Version string `json:"version"`
}

// Pos is where something is written.
type Pos struct {
	File string `json:"file"` // from the root of the tree
	Line int    `json:"line"`
}

// Compare orders positions by file and line.
func (p Pos) Compare(other Pos) int {
	return cmp.Or(cmp.Compare(p.File, other.File), cmp.Compare(p.Line, other.Line))
}

// Problem is something wrong with a configuration, which may keep clients from using it.
type Problem struct {
	Pos
	Text string `json:"text"`
}

// Place returns the file and the line. Pos has no String, which all that embed it would have, too.
func (p Pos) Place() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

func (p Problem) String() string { return p.Place() + ": " + p.Text }

// Options say what of a tree is read, and how.
type Options struct {
	Client Client `json:"client"`
	Dir    string `json:"dir,omitempty"` // by slash path; empty for the root
	// Tests adds what the test files of Dir call: it is the root module, whose calls "init" installs for them, too. Files
	// with values of its variables count, and its lock file.
	Tests bool `json:"tests,omitempty"`
	// Submodules adds the directories in the directory modules of Dir, which a source can name (//modules/x). There may be
	// no configuration then.
	Submodules bool `json:"submodules,omitempty"`
	// Vars are given to Dir: the Args of the call of it. A variable that is not among them has its default.
	Vars map[string]Arg `json:"vars,omitempty"`
	// Passed names variables among Vars that change something in the packages that Dir calls. The others of Vars count only if
	// they change a source or a version in Dir.
	Passed map[string]bool `json:"-"`
	// Environment and Given are texts that are given to a root module by TF_VAR_… and by -var. Files count more than Environment,
	// and Given counts most.
	Environment map[string]string `json:"environment,omitempty"`
	Given       map[string]string `json:"given,omitempty"`
	// Sources asks for the sources as they stand in the files of the whole tree, for both clients, and for nothing else.
	Sources bool `json:"sources,omitempty"`
	// CallsOnly asks for Calls, and for what else comes with them. Of a tree in which no line looks like the beginning of one
	// nothing is read, which takes no child. A call that is written in a way that formatters do not leave may be missed.
	CallsOnly bool `json:"callsOnly,omitempty"`
	// Also are directories whose Sources are wanted although they are [IsExampleOrTest]; sorted.
	Also []string `json:"also,omitempty"`
}
