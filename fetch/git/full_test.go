package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch/git"
)

// A git without disk space is not an error of the repository.
func TestGitWithoutRoom(t *testing.T) {
	root := t.TempDir()
	newAuthor(t, root, "a.git").commit("a")
	s := serve(t, backend(t, root))
	bin := t.TempDir()
	script := "#!/bin/sh\ncase \" $* \" in *' fetch '*|*' index-pack '*)\n" +
		"\techo 'fatal: write error: No space left on device' >&2; exit 128;; esac\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	bothWays(t, "", func(t *testing.T, f *git.Getter) {
		_, err := f.FetchURL(t.Context(), s.URL+"/a.git/.git?ref=main", files{})
		if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, modproxy.ErrUnavailable) {
			t.Error(err)
		}
	})
}

// No git waits for a disk flush: its files are removed when the fetch ends.
func TestNothingFlushed(t *testing.T) {
	root := t.TempDir()
	newAuthor(t, root, "a.git").commit("a")
	s := serve(t, backend(t, root))
	bin := t.TempDir()
	trace := filepath.Join(bin, "trace")
	script := "#!/bin/sh\nPATH='" + os.Getenv("PATH") + "' GIT_TRACE2_EVENT='" + trace + "' exec git \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	bothWays(t, "", func(t *testing.T, f *git.Getter) {
		if _, err := f.FetchURL(t.Context(), s.URL+"/a.git/.git?ref=main", files{}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(trace)
		if err != nil || !strings.Contains(string(b), `"index-pack"`) || strings.Contains(string(b), `"fsync/`) {
			t.Errorf("error %v, of index-pack:\n%s", err, b)
		}
		os.Remove(trace)
	})
}
