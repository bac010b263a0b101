package tfconfig

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"path"

	"github.com/klauspost/compress/gzip"

	"github.com/modproxy/modproxy"
)

// A Tree is a set of files, with configuration among them. [PackageTree] makes one; [Reader.ReadDirectory] reads a directory on disk
// without one.
type Tree struct {
	digest modproxy.Digest // of the package, under which results are stored; zero for a directory
	root   bool            // includes files with values of variables, and the lock file
	each   func(f func(name string, size int64, content io.Reader) error) error
}

// PackageTree returns the tree of a package. Each reading of the tree calls open.
func PackageTree(d modproxy.Digest, open func() (io.ReadCloser, error)) Tree {
	return Tree{digest: d, each: func(f func(string, int64, io.Reader) error) error {
		in, err := open()
		if err != nil {
			return err
		}
		defer in.Close()
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return invalid("package: %w", err)
		}
		for files := tar.NewReader(unzipped); ; {
			h, err := files.Next()
			switch {
			case err == io.EOF:
				return nil
			case err != nil:
				return invalid("package: %w", err)
			case h.Typeflag != tar.TypeReg:
				return invalid("package: %q is not a regular file", h.Name)
			}
			if err := f(h.Name, h.Size, files); err != nil {
				return err
			}
		}
	}}
}

// send writes the wanted files of a tree to a child.
func (t Tree) send(ctx context.Context, w io.Writer, wanted func(name string) bool) error {
	out := tar.NewWriter(w)
	files, size := 0, int64(0)
	err := t.each(func(name string, n int64, content io.Reader) error {
		if !wanted(name) {
			return ctx.Err()
		}
		n = min(n, maxFile+1) // the child rejects longer files, if a client reads them
		files++
		size += n
		switch {
		case files > maxFiles:
			return invalid("%q: more than the %d configuration files that are read", name, maxFiles)
		case size > maxTree:
			return invalid("%q: more than the %d MiB of configuration files that are read", name, maxTree>>20)
		}
		if err := out.WriteHeader(&tar.Header{Name: name, Size: n}); err != nil {
			return err
		}
		if _, err := io.CopyN(out, content, n); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return out.Close()
}

// receive reads the output of send.
func receive(r io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if err == io.EOF {
			return files, nil
		} else if err != nil {
			return nil, err
		}
		if files[path.Clean(h.Name)], err = io.ReadAll(in); err != nil {
			return nil, err
		}
	}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", modproxy.ErrInvalid, fmt.Errorf(format, args...))
}
