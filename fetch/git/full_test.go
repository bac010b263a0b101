package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/pack"
)

// A git that finds no room to write is no trouble of the repository.
func TestGitWithoutRoom(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\ncase \" $* \" in *' fetch '*) echo 'fatal: write error: No space left on device' >&2; exit 128;; esac\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	b, err := pack.New(t.TempDir(), pack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	f := newFetcher(t)
	_, err = f.FetchURL(t.Context(), "https://git.example.com/a.git?ref=v1", b)
	if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, modproxy.ErrUnavailable) {
		t.Error(err)
	}
}
