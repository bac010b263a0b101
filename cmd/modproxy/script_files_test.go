package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/modproxy/modproxy/test/registrytest"
)

// treeFile is the part of a file that sametree compares.
type treeFile struct {
	data string
	mode fs.FileMode // the owner's permissions
}

// readTree reads the files below dir, without .git. It reads the targets of links, and ignores links without a target.
func readTree(dir string) (map[string]treeFile, error) {
	files := map[string]treeFile{}
	return files, walkTree(dir, "", files)
}

func walkTree(root, rel string, files map[string]treeFile) error {
	entries, err := os.ReadDir(filepath.Join(root, rel))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(rel, e.Name())
		info, err := os.Stat(filepath.Join(root, name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && e.Type() == fs.ModeSymlink:
		case err != nil:
			return err
		case e.Name() == ".git":
		case info.IsDir():
			if err := walkTree(root, name, files); err != nil {
				return err
			}
		default:
			data, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				return err
			}
			files[name] = treeFile{string(data), info.Mode().Perm() & 0o700}
		}
	}
	return nil
}

func sametree(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: sametree A B")
	}
	a, err := readTree(ts.MkAbs(args[0]))
	ts.Check(err)
	b, err := readTree(ts.MkAbs(args[1]))
	ts.Check(err)
	if len(a) == 0 {
		ts.Fatalf("%s has no files", args[0])
	}
	differences := 0
	differ := func(format string, args ...any) {
		differences++
		if !neg {
			ts.Logf(format, args...)
		}
	}
	for name, file := range a {
		other, ok := b[name]
		switch {
		case !ok:
			differ("%s is only in %s", name, args[0])
		case other.data != file.data:
			differ("%s has other contents:\n%s: %q\n%s: %q", name, args[0], file.data, args[1], other.data)
		case other.mode != file.mode:
			differ("%s: mode %v in %s, %v in %s", name, file.mode, args[0], other.mode, args[1])
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			differ("%s is only in %s", name, args[1])
		}
	}
	if differences > 0 != neg {
		ts.Fatalf("%d differences between %s and %s", differences, args[0], args[1])
	}
}

// tree prints the names of the files in a tree. Executable files get a star.
func tree(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: tree DIR")
	}
	files, err := readTree(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if files[name].mode&0o100 != 0 {
			name += "*"
		}
		fmt.Fprintln(ts.Stdout(), name)
	}
}

func expand(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		data := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(data), 0o666))
	}
}

// requires creates a directory with a configuration that requires providers.
func requires(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: requires DIR ADDRESS[@CONSTRAINT]…")
	}
	type requirement struct {
		Source  string `json:"source"`
		Version string `json:"version,omitempty"`
	}
	list := map[string]requirement{}
	for _, arg := range args[1:] {
		var r requirement
		r.Source, r.Version, _ = strings.Cut(arg, "@")
		list[strings.ToLower(path.Base(r.Source))] = r
	}
	text, err := json.Marshal(map[string]any{"terraform": map[string]any{"required_providers": list}})
	ts.Check(err)
	dir := ts.MkAbs(args[0])
	ts.Check(os.RemoveAll(dir))
	ts.Check(os.MkdirAll(dir, 0o777))
	ts.Check(os.WriteFile(filepath.Join(dir, "main.tf.json"), text, 0o666))
}

func writeCertificate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: certificate CERT KEY FROM UNTIL")
	}
	from, err1 := time.ParseDuration(args[2])
	until, err2 := time.ParseDuration(args[3])
	cert, key, err := registrytest.CA().IssueFor(from, until, "127.0.0.1", "localhost", "registry.terraform.io")
	ts.Check(errors.Join(err1, err2, err))
	for file, content := range map[string][]byte{args[0]: cert, args[1]: key} { // each file at once, as programs that renew certificates write them
		ts.Check(os.WriteFile(ts.MkAbs(file+".new"), content, 0o600))
		ts.Check(os.Rename(ts.MkAbs(file+".new"), ts.MkAbs(file)))
	}
}
