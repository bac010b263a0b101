package tfconfig

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"strings"
)

// errFound ends the reading of a tree.
var errFound = errors.New("found")

// calls reports whether a file in the directories of a tree where calls can begin looks as if it had a call. It parses nothing and so may
// run in this process.
func (t Tree) calls(ctx context.Context, o Options) (bool, error) {
	var text bytes.Buffer
	size := int64(0)
	err := t.each(func(name string, n int64, content io.Reader) error {
		if ctx.Err() != nil || ending(name, modulesEnd) < 0 || path.Dir(path.Clean(name)) != o.Dir && !o.Submodules {
			return context.Cause(ctx)
		}
		if size += n; n > maxFile || size > maxTree {
			return errFound // the child rejects the file, if the client reads it
		}
		text.Reset()
		if _, err := text.ReadFrom(content); err != nil {
			return err
		}
		if mayCall(name, text.Bytes()) {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// mayCall reports whether a file may call a module. In native syntax it finds calls at the beginning of a line only.
func mayCall(name string, text []byte) bool {
	if strings.HasSuffix(name, ".json") {
		return bytes.Contains(text, []byte(`"module"`))
	}
	for line := range bytes.Lines(text) {
		rest, found := bytes.CutPrefix(bytes.TrimLeft(line, "\ufeff \t"), []byte("module"))
		if found && len(rest) > 0 && strings.IndexByte(" \t\"/", rest[0]) >= 0 {
			return true
		}
	}
	return false
}
