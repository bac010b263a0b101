package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/testscript"
)

// jobPage has fragments of the files of CI systems. The comment before each is "file of: " and its title.
const jobPage = "docs/how-to/ci-systems.md"

// ciFile is the file of a CI system: its fields are those of GitHub Actions, GitLab CI and Atlantis.
type ciFile struct {
	On   any
	Jobs map[string]struct {
		RunsOn      string `yaml:"runs-on"`
		Permissions map[string]string
		Env         map[string]string
		Steps       []struct{ Uses, Run string }
	}

	Plan struct {
		IDTokens  map[string]struct{ Aud string } `yaml:"id_tokens"`
		Variables map[string]string
		Script    []string
	}

	Repos     any
	Workflows map[string]struct{ Plan struct{ Steps []any } }
}

// jobEnvironment begins a job in a directory, with a directory of programs and the file GITHUB_ENV. A variable of a script cannot be
// unset, but a CI system does not set the variables that a job may not have.
const jobEnvironment = `cd %[1]q
export PATH=%[2]q:$PATH GITHUB_WORKSPACE=%[1]q GITHUB_ENV=%[3]q CI_PROJECT_DIR=%[1]q
export TF_CLI_ARGS_init=-no-color TF_CLI_ARGS_plan=-no-color
unset TF_CLI_CONFIG_FILE
[ -n "$TF_TOKEN_registry_acme_example" ] || unset TF_TOKEN_registry_acme_example
`

// secret finds a secret of GitHub Actions, which is a variable of the script.
var secret = regexp.MustCompile(`\$\{\{ secrets\.(\w+) \}\}`)

// commands returns the shell commands that the CI system runs for the file. Tokens of GitLab CI come from token. Actions of GitHub
// ("uses") are not run.
func (f *ciFile) commands(token func(audience string) (string, error)) (string, error) {
	var b strings.Builder
	export := func(variables map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(variables)) {
			fmt.Fprintf(&b, "export %s=\"%s\"\n", name, secret.ReplaceAllString(variables[name], "$$$1"))
		}
	}
	for _, job := range f.Jobs {
		export(job.Env)
		for _, step := range job.Steps {
			if step.Run != "" { // each step is a process, and GITHUB_ENV has variables for the next ones
				fmt.Fprintf(&b, "bash -e -c '%s'\nset -a; . \"$GITHUB_ENV\"; set +a\n", strings.ReplaceAll(step.Run, "'", `'\''`))
			}
		}
	}
	for name, t := range f.Plan.IDTokens {
		value, err := token(t.Aud)
		if err != nil {
			return "", err
		}
		export(map[string]string{name: value})
	}
	export(f.Plan.Variables)
	for _, line := range f.Plan.Script {
		fmt.Fprintln(&b, line)
	}
	for _, workflow := range f.Workflows {
		for _, step := range workflow.Plan.Steps {
			switch step := step.(type) {
			case string:
				fmt.Fprintf(&b, "terraform %s -input=false\n", step)
			case map[string]any:
				env, _ := step["env"].(map[string]any)
				value := fmt.Sprint(env["value"])
				if command, ok := env["command"]; ok {
					value = fmt.Sprintf("$(%s)", command)
				}
				export(map[string]string{fmt.Sprint(env["name"]): value})
			}
		}
	}
	return b.String(), nil
}

// readJob returns the file in jobPage with that title.
func readJob(title string, names *strings.Replacer) (*ciFile, error) {
	data, err := os.ReadFile(filepath.Join(top, jobPage))
	if err != nil {
		return nil, err
	}
	for _, b := range (page{jobPage, strings.Split(string(data), "\n")}).blocks() {
		if b.marker == "file of: "+title {
			var f ciFile
			err := yaml.UnmarshalWithOptions([]byte(names.Replace(strings.Join(b.lines, "\n"))), &f, yaml.Strict())
			return &f, err
		}
	}
	return nil, fmt.Errorf("%s has no file of %s", jobPage, title)
}

// runJob runs a job of jobPage in the directory of a repository, as the CI system does. Its token is from the script's issuer.
func runJob(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: job TITLE DIR")
	}
	w, dir := worldOf(ts), ts.MkAbs(args[1])
	f, err := readJob(args[0], strings.NewReplacer("registry_example_com", "registry_acme_example", "/etc/atlantis/", dir+"/"))
	ts.Check(err)
	commands, err := f.commands(func(audience string) (string, error) { return w.issuer.give("aud=" + audience) })
	ts.Check(err)
	bin := filepath.Join(ts.MkAbs("."), "bin")
	ts.Check(os.MkdirAll(bin, 0o700))
	program := filepath.Join(bin, "terraform")
	if _, err := os.Lstat(program); err != nil {
		ts.Check(os.Symlink(w.program, program))
	}
	variables := ts.MkAbs("github-env")
	ts.Check(os.WriteFile(variables, nil, 0o600))
	err = ts.Exec("bash", "-e", "-c", fmt.Sprintf(jobEnvironment, dir, bin, variables)+commands)
	check(ts, neg, err)
}

// give returns a token with the claims of "issuer gives", and others.
func (i *issuer) give(claims ...string) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sign(append(claims, i.claims...))
}

// serveJobToken gives a job of GitHub Actions a token for an audience, if the job shows the word of its runner.
func (i *issuer) serveJobToken(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "bearer runner" || r.FormValue("api-version") != "2.0" {
		http.Error(w, "not the runner", http.StatusUnauthorized)
		return
	}
	token, err := i.give("aud=" + r.FormValue("audience"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	json.NewEncoder(w).Encode(map[string]string{"value": token})
}
