package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/mirror"
	"github.com/modproxy/modproxy/static"
)

// siteWriter writes the packages of a mirror into a static site, one after another.
type siteWriter struct {
	site *static.Site
	pipe *io.PipeWriter // of the current package; nil between packages
	left int64          // remaining bytes of the package
	done chan error     // result of writing the package
	// failed are the reasons why packages could not be written.
	failed problems
}

// take processes a line of a mirror.
func (s *siteWriter) take(line mirror.Line) {
	switch {
	case line.Progress != nil:
	case line.Data != nil && s.pipe != nil:
		_, _ = s.pipe.Write(line.Data) // done returns the error
		if s.left -= int64(len(line.Data)); s.left <= 0 {
			s.end(nil)
		}
	default:
		s.end(io.ErrUnexpectedEOF)
		if line.Package != nil {
			s.begin(line.Package)
		}
	}
}

// begin begins a package, whose bytes are in the site already or follow.
func (s *siteWriter) begin(p *mirror.Package) {
	v, err := p.Parse("")
	var add func(content io.Reader) error // nil for content that sites do not have
	switch v.Content() {
	case modproxy.ModuleContent:
		add = func(content io.Reader) error { return s.site.Add(v, p.Subdir, p.Digest, content) }
	case modproxy.ArchiveContent:
		add = func(content io.Reader) error { return s.site.AddProvider(v, p.Digest, p.Hashes, content) }
	case modproxy.ReleaseContent, modproxy.KeysContent:
	}
	switch {
	case err != nil, add == nil:
	case p.Data:
		var content *io.PipeReader
		content, s.pipe = io.Pipe()
		s.left, s.done = p.Size, make(chan error, 1)
		go func() {
			err := add(content)
			content.CloseWithError(err)
			s.done <- err
		}()
		return
	default:
		err = add(nil)
	}
	if err != nil {
		s.failed = append(s.failed, err)
	}
}

// end ends the current package, if any. If err is not nil, the package was cut off.
func (s *siteWriter) end(err error) {
	if s.pipe == nil {
		return
	}
	s.pipe.CloseWithError(err)
	s.pipe = nil
	if err := <-s.done; err != nil {
		s.failed = append(s.failed, err)
	}
}

// finish writes the files about all packages, and prints a summary.
func (s *siteWriter) finish(env *environment, dir string) error {
	s.end(io.ErrUnexpectedEOF)
	host := ""
	if env.config != nil {
		host = env.config.DefaultHost()
	}
	held, err := s.site.Finish(host)
	if err != nil {
		return errors.Join(append(s.failed, err)...)
	}
	all := count(held.Versions, "version")
	if held.Packages > 0 {
		all += ", and " + count(held.Packages, "package") + " of providers"
	}
	fmt.Fprintf(env.stderr, "%s holds %s; %s/nginx.conf says how to serve them\n", dir, all, dir)
	if text := held.Installation(); text != "" {
		fmt.Fprintf(env.stderr, "\n# In ~/.terraformrc or ~/.tofurc of clients that have the directory:\n%s", text)
	}
	if text := held.NetworkInstallation("https://modules.example.com"); text != "" {
		fmt.Fprintf(env.stderr, "\n# Of clients that reach a web server that serves it; https only:\n%s", text)
	}
	if len(s.failed) > 0 {
		return s.failed
	}
	return nil
}
