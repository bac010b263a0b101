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
// reason. Reader.Read never guesses a value.
//
// # Invariants
//
// An error in a file is a [Problem], and the other files are read. Input beyond a limit is an error; nothing is cut.
//
// HCL from strangers is parsed in a child process only, because parsing can end the process: 100 KiB of nested brackets exhaust
// the stack (https://github.com/hashicorp/hcl/issues/809), and recover does not catch that. The child is this program. It has no
// environment and a bounded time. On Linux it also has at most 512 MiB of memory and 10 seconds of processor time. If it dies, the
// error says why. No other package of modproxy parses HCL.
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

// Configuration lists the module calls and provider requirements of a directory, including the directories that it calls by local
// sources.
type Configuration struct {
	// Calls are the calls of modules outside the tree, by directory and position. If a directory is called twice with arguments that
	// change its calls, its calls appear twice.
	Calls     []Call        `json:"calls,omitempty"`
	Providers []Requirement `json:"providers,omitempty"`
	// Variables are the variables of the directory that change sources and versions, sorted.
	Variables []string  `json:"variables,omitempty"`
	Locks     []Lock    `json:"locks,omitempty"`    // with Options.Tests, if the directory has a lock file
	Problems  []Problem `json:"problems,omitempty"` // if not empty, the other fields may be incomplete
	Sources   []Source  `json:"sources,omitempty"`  // by file and position; with Options.Sources; incomplete if there are Problems

	CPU time.Duration `json:"-"` // processor time of this reading; zero for a stored result
}

// Call is a call of a module.
type Call struct {
	Pos
	From    []Pos  `json:"from,omitempty"` // the calls of directories that lead to this call, outermost first
	Name    string `json:"name"`
	Source  string `json:"source,omitempty"`
	Version string `json:"version,omitempty"` // the constraint; empty for any
	// Dynamic is the reason why Source or Version is unknown. It is empty if both are known.
	Dynamic string         `json:"dynamic,omitempty"`
	Args    map[string]Arg `json:"args,omitempty"`
	// Variable reports whether Source depends on variables, so that another call of the directory may have another source.
	Variable bool `json:"variable,omitempty"`
}

// Arg is an argument of a call: a value in JSON, or the reason why the value is unknown.
type Arg struct {
	Value   json.RawMessage `json:"value,omitempty"`
	Dynamic string          `json:"dynamic,omitempty"`
	// Inputs are the variables of the directory that the value depends on, sorted.
	Inputs []string `json:"of,omitempty"`

	// Skipped reports whether Reader.Read left the argument unevaluated, although a value in Options.Vars was available: the value
	// depends on a variable that changes no source or version in the directory, and that is not in Options.Passed.
	Skipped bool `json:"-"`
}

// Requirement is a provider that a module requires, or uses without a requirement.
type Requirement struct {
	Pos
	Name    string `json:"name"`
	Source  string `json:"source"`            // as written; without a source: hashicorp/ and the name
	Version string `json:"version,omitempty"` // the constraint; empty for any
}

// Lock is the entry of a provider in a dependency lock file.
type Lock struct {
	Pos
	Source  string `json:"source"`
	Version string `json:"version"`
}

// Pos is a position in a file.
type Pos struct {
	File string `json:"file"` // slash path from the root of the tree
	Line int    `json:"line"`
}

// Compare orders positions by file and line.
func (p Pos) Compare(other Pos) int {
	return cmp.Or(cmp.Compare(p.File, other.File), cmp.Compare(p.Line, other.Line))
}

// Problem is an error in a configuration, which may keep clients from using it.
type Problem struct {
	Pos
	Text string `json:"text"`
}

// Place returns the file and the line. It is not named String, because every type that embeds Pos would then be a Stringer.
func (p Pos) Place() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

func (p Problem) String() string { return p.Place() + ": " + p.Text }

// Options select the files of a tree and the way in which they are read.
type Options struct {
	Client Client `json:"client"`
	Dir    string `json:"dir,omitempty"` // slash path; empty for the root
	// Tests treats Dir as the root module: its test files are read, because "init" installs their modules, too, and so are its
	// files with values of variables and its lock file.
	Tests bool `json:"tests,omitempty"`
	// Submodules adds the directories below modules in Dir, which a source can name (//modules/x). In this case Dir may have no
	// configuration.
	Submodules bool `json:"submodules,omitempty"`
	// Vars are the values of variables of Dir: the Args of the call. A variable that is missing here has its default.
	//
	// Read evaluates a package with only those Vars that change a source or a version in Dir, so that calls with different other
	// arguments share a stored result. Arguments of Dir's own calls that depend on the other Vars are unknown, and Skipped.
	Vars map[string]Arg `json:"vars,omitempty"`
	// Passed names variables of Dir that Read must also evaluate, although they change nothing in Dir: Dir passes them on to a
	// package where they change a source or a version. A caller cannot know them before it has read that package. Package closure
	// reads Dir without them first, and again if a called package needs one.
	Passed map[string]bool `json:"-"`
	// Environment and Given are values of variables of a root module, as text: Environment from TF_VAR_…, and Given from the
	// arguments -var. Files take precedence over Environment, and Given takes precedence over both.
	Environment map[string]string `json:"environment,omitempty"`
	Given       map[string]string `json:"given,omitempty"`
	// Sources returns only Configuration.Sources: the sources in the files of the whole tree, for both clients.
	Sources bool `json:"sources,omitempty"`
	// CallsOnly returns Calls and the other results only if the tree may have calls. If no line of a file looks like the beginning
	// of a call, the result is empty, and no child runs. A call in a layout that formatters never produce may be missed.
	CallsOnly bool `json:"callsOnly,omitempty"`
	// Also are directories whose Sources are read although [IsExampleOrTest] reports true for them; sorted.
	Also []string `json:"also,omitempty"`
}
