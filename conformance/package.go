package conformance

import (
	"errors"
	"net/http"
	"path"
	"strings"
)

func namesArchive(v *visit) Result {
	at, ok := v.where()
	if !ok {
		return after("download.location")
	}
	switch t, ok := v.target(); {
	case !ok:
		return without("%s: not downloaded by http", at)
	case t.format == "" && v.name == checkov:
		return fail("%s: Checkov does not recognize an archive", at)
	case t.format == "":
		return fail("%s: the client does not recognize an archive, and searches a page for an address", at)
	default:
		return pass("%s: %s", at, t.format)
	}
}

// beforePackage returns the package, or a result with the reason why no package can be checked. With a package, the
// verdict of the result is empty.
func (v *visit) beforePackage() (*archive, target, Result) {
	t, p := v.fetch()
	switch {
	case p == nil:
		return nil, t, after("package.archive")
	case p.err != nil || !p.came:
		return p, t, after("package.get")
	case p.tooMuch:
		return p, t, without("a package of more than %d bytes is not checked", int64(maxPackage))
	}
	return p, t, Result{}
}

func givesPackage(v *visit) Result {
	switch t, p := v.fetch(); {
	case p == nil:
		return after("package.archive")
	case p.err != nil:
		return fail("%s: %v", t.url, p.err)
	case !p.came:
		return fail("%s: %s", t.url, p)
	default:
		return pass("%d bytes", p.size)
	}
}

func headsPackage(v *visit) Result {
	t, p := v.fetch()
	if p == nil || p.err != nil || !p.came {
		return after("package.get")
	}
	r, err := v.request(http.MethodHead, ofPackage, t.url)
	if err != nil {
		return fail("%v", err)
	}
	a := v.ask(r, v.hops(ofPackage))
	if a.err != nil || a.status != http.StatusOK {
		return pass("%s: clients then send GET without HEAD", a)
	}
	length, whole := a.header.Get("Content-Length"), p.header.Get("Content-Length")
	switch {
	case a.header.Get("Accept-Ranges") == "bytes" && length == "0" && p.size > 0:
		return fail("Content-Length 0 with Accept-Ranges, for a package of %d bytes: the client treats it as downloaded", p.size)
	case length != "" && whole != "" && length != whole:
		return warn("Content-Length %s, and %s with GET", length, whole)
	}
	return pass("Content-Length %q", length)
}

func plainPackage(v *visit) Result {
	p, t, not := v.beforePackage()
	switch {
	case not.Verdict != "":
		return not
	case p.coding != "" && !t.direct:
		return fail("Content-Encoding %q: the client decodes it, and then finds no archive", p.coding)
	}
	return pass("no Content-Encoding")
}

func unpacks(v *visit) Result {
	p, t, not := v.beforePackage()
	switch {
	case not.Verdict != "":
		return not
	case p.coding != "":
		return after("package.encoding")
	case errors.Is(p.unread, errXZ):
		return without("%v", p.unread)
	case p.unread != nil:
		return fail("as %s: %v", t.format, p.unread)
	}
	return pass("%d files", len(p.files))
}

// opened is like beforePackage, for rules about the content of the package.
func (v *visit) opened() (*archive, target, Result) {
	p, t, not := v.beforePackage()
	if not.Verdict == "" && (p.unread != nil || p.coding != "") {
		not = after("package.unpacks")
	}
	return p, t, not
}

func noLinks(v *visit) Result {
	p, _, not := v.opened()
	if not.Verdict != "" {
		return not
	}
	for _, f := range p.files {
		if f.link {
			return fail("%.80q is a link or a special file: the client creates an empty file", f.name)
		}
	}
	return pass("files and directories only")
}

func readable(v *visit) Result {
	p, _, not := v.opened()
	if not.Verdict != "" {
		return not
	}
	for _, f := range p.files {
		if mode := f.mode.Perm(); mode != 0 && mode&0o400 == 0 {
			return fail("%.80q has the mode %04o: its owner cannot read it", f.name, mode)
		}
	}
	return pass("all files")
}

func hasModule(v *visit) Result {
	p, t, not := v.opened()
	if not.Verdict != "" {
		return not
	}
	want := path.Clean("/" + t.subdir)
	configured := map[string]bool{}
	there := want == "/"
	for _, f := range p.files {
		name := path.Clean("/" + f.name)
		there = there || strings.HasPrefix(name, want+"/")
		for _, suffix := range []string{".tf", ".tf.json", ".tofu", ".tofu.json"} {
			if strings.HasSuffix(name, suffix) {
				configured[path.Dir(name)] = true
			}
		}
	}
	switch wrapped := wrapper(p.files); {
	case !there:
		return fail("the directory %q of the location is not in the package", t.subdir)
	case configured[want]:
		return pass("%q has a configuration", want)
	case wrapped != "" && configured[wrapped] && want == "/":
		return fail("the module is in %q of the package, and the location does not name that directory", wrapped)
	default:
		return warn("%q has no configuration", want)
	}
}

// wrapper returns the single directory at the top that contains all files, or "".
func wrapper(files []file) (dir string) {
	for _, f := range files {
		first, rest, below := strings.Cut(strings.TrimPrefix(path.Clean("/"+f.name), "/"), "/")
		if !below || rest == "" || dir != "" && dir != "/"+first {
			return ""
		}
		dir = "/" + first
	}
	return dir
}
