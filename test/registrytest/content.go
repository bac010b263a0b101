package registrytest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// A file is one file of a fixture.
type file struct {
	name   string // slash-separated, relative
	data   []byte
	exec   bool
	link   string // the target of a symbolic link; else empty
	commit string // REPOSITORY@REVISION of a submodule; else empty
	random int64  // number of random bytes after data, in a zip
}

// parseFile reads the mark at the end of a name in a fixture.
func parseFile(name string, data []byte) (file, error) {
	f := file{name: name, data: data}
	if before, ok := strings.CutSuffix(name, "*"); ok {
		f.name, f.exec = before, true
	} else if before, ok := strings.CutSuffix(name, "@"); ok {
		f.name, f.link, f.data = before, strings.TrimSpace(string(data)), nil
	} else if before, ok := strings.CutSuffix(name, "="); ok {
		f.name, f.commit, f.data = before, strings.TrimSpace(string(data)), nil
	}
	if !filepath.IsLocal(f.name) || path.Clean(f.name) != f.name {
		return file{}, fmt.Errorf("fixture: file name %q: want a clean relative path", name)
	}
	return f, nil
}

// content is a fixture, sorted by kind.
type content struct {
	modules   map[string]map[string]entry // by ns/name/system, then by version as spelled
	lists     map[string][]byte           // explicit versions documents, by ns/name/system
	repos     map[string]map[string][]file
	oci       map[string]map[string][]file // by repository and tag
	htpasswd  []byte                       // of the OCI registry; nil if it wants no authentication
	archives  map[string][]file            // by path, including the extension
	providers map[string]*provider         // by ns/type
	other     map[string][]byte            // all other files, by name: .well-known, files, get, meta, v1, v2, registry
}

// entry is one version of a module: the location of its package, and the form of the answer.
type entry struct {
	answer   string
	location string
}

func newContent() *content {
	return &content{
		modules:   map[string]map[string]entry{},
		lists:     map[string][]byte{},
		repos:     map[string]map[string][]file{},
		archives:  map[string][]file{},
		oci:       map[string]map[string][]file{},
		providers: map[string]*provider{},
		other:     map[string][]byte{},
	}
}

// readContent sorts the files of a fixture.
func readContent(files []file) (*content, error) {
	c := newContent()
	for _, f := range files {
		top, rest, _ := strings.Cut(f.name, "/")
		var err error
		switch top {
		case "modules":
			err = c.addModule(rest, f)
		case "repos":
			err = c.addRepo(rest, f)
		case "providers":
			err = c.addProvider(rest, f)
		case "archives":
			err = c.addArchive(rest, f)
		case "oci":
			err = c.addOCI(rest, f)
		case ".well-known", "files", "get", "meta", "v1", "v2", "registry":
			c.other[f.name] = f.data
		default:
			err = fmt.Errorf("want modules, providers, repos, archives, oci, files, get, meta, v1, v2, registry or .well-known at the top")
		}
		if err != nil {
			return nil, fmt.Errorf("fixture: %s: %w", f.name, err)
		}
	}
	return c, nil
}

// addModule adds modules/NS/NAME/SYSTEM/versions, …/VERSION, which contains a location, or …/VERSION/PATH, which is a
// file of the package.
func (c *content) addModule(name string, f file) error {
	parts := strings.SplitN(name, "/", 5)
	if len(parts) < 4 {
		return fmt.Errorf("want modules/NAMESPACE/NAME/SYSTEM/VERSION")
	}
	address, version := strings.Join(parts[:3], "/"), parts[3]
	if version == "versions" && len(parts) == 4 {
		c.lists[address] = f.data
		return nil
	}
	if c.modules[address] == nil {
		c.modules[address] = map[string]entry{}
	}
	if len(parts) == 5 {
		f.name = parts[4]
		archive := packageName(address, version)
		c.archives[archive] = append(c.archives[archive], f)
		c.modules[address][version] = entry{answer: "204", location: "{url}/archives/" + archive}
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(f.data)), "\n")
	e := entry{answer: "204", location: lines[len(lines)-1]}
	if len(lines) == 2 {
		e.answer = strings.TrimSpace(lines[0])
	}
	if len(lines) > 2 {
		return fmt.Errorf("want a location, or the form of the answer and a location")
	}
	c.modules[address][version] = e
	return nil
}

// packageName returns the name of the archive for a version whose files are in the fixture.
func packageName(address, version string) string {
	return path.Join("packages", address, version+".tar.gz")
}

// addRepo adds repos/PATH.git@REVISION/FILE.
func (c *content) addRepo(name string, f file) error {
	before, after, ok := strings.Cut(name, ".git@")
	revision, rest, ok2 := strings.Cut(after, "/")
	if !ok || !ok2 {
		return fmt.Errorf("want repos/PATH.git@REVISION/FILE")
	}
	repo := before + ".git"
	if c.repos[repo] == nil {
		c.repos[repo] = map[string][]file{}
	}
	f.name = rest
	c.repos[repo][revision] = append(c.repos[repo][revision], f)
	return nil
}

// addOCI adds oci/REPOSITORY@TAG/FILE, or oci/htpasswd.
func (c *content) addOCI(name string, f file) error {
	if name == "htpasswd" {
		c.htpasswd = f.data
		return nil
	}
	repo, after, ok := strings.Cut(name, "@")
	tag, rest, ok2 := strings.Cut(after, "/")
	if !ok || !ok2 || strings.Count(repo, "/") != 1 {
		return fmt.Errorf("want oci/REPOSITORY@TAG/FILE, and one slash in REPOSITORY")
	}
	if c.oci[repo] == nil {
		c.oci[repo] = map[string][]file{}
	}
	f.name = rest
	c.oci[repo][tag] = append(c.oci[repo][tag], f)
	return nil
}

// addArchive adds archives/PATH.EXTENSION/FILE.
func (c *content) addArchive(name string, f file) error {
	parts := strings.Split(name, "/")
	i := slices.IndexFunc(parts, func(part string) bool { return formatOf(part) != "" })
	if i < 0 || i == len(parts)-1 {
		return fmt.Errorf("want archives/PATH.EXTENSION/FILE with one of the extensions %s", strings.Join(formats, ", "))
	}
	archive := strings.Join(parts[:i+1], "/")
	f.name = strings.Join(parts[i+1:], "/")
	c.archives[archive] = append(c.archives[archive], f)
	return nil
}

// fromArchive returns the files of a txtar archive.
func fromArchive(ar *txtar.Archive) ([]file, error) {
	var files []file
	for _, af := range ar.Files {
		f, err := parseFile(af.Name, af.Data)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// fromPath returns the files of a fixture on disk: a directory or a txtar file. In a directory, files may be links or
// executable.
func fromPath(name string) ([]file, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("fixture: %w", err)
	}
	if !info.IsDir() {
		ar, err := txtar.ParseFile(name)
		if err != nil {
			return nil, fmt.Errorf("fixture: %w", err)
		}
		return fromArchive(ar)
	}
	var files []file
	err = fs.WalkDir(os.DirFS(name), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(name, filepath.FromSlash(p))) // an fs.FS rejects names that are not UTF-8
		if err != nil {
			return err
		}
		f, err := parseFile(p, data)
		files = append(files, f)
		return err
	})
	return files, err
}

// fill replaces the placeholders in data with the result of value, which gets the kind and the name in a placeholder.
func fill(data []byte, value func(kind, name string) (string, error)) ([]byte, error) {
	var out bytes.Buffer
	for {
		i := bytes.IndexByte(data, '{')
		j := bytes.IndexByte(data, '}')
		if i < 0 || j < 0 {
			out.Write(data)
			return out.Bytes(), nil
		}
		if j < i {
			out.Write(data[:i])
			data = data[i:]
			continue
		}
		out.Write(data[:i])
		data, j = data[i:], j-i
		kind, name, _ := strings.Cut(string(data[1:j]), ":")
		switch kind {
		case "host", "url", "commit", "sha256":
			v, err := value(kind, name)
			if err != nil {
				return nil, err
			}
			out.WriteString(v)
			data = data[j+1:]
		default:
			out.WriteByte('{')
			data = data[1:]
		}
	}
}
