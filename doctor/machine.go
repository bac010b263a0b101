package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/fetch/git"
)

// git examines the git program.
func (e *examination) git(ctx context.Context) []Finding {
	err := git.Installed(ctx)
	switch _, missing := exec.LookPath("git"); {
	case err == nil:
		return nil
	case errors.Is(missing, exec.ErrNotFound):
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			name := filepath.Join(dir, "git")
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				return []Finding{finding("git_missing", "PATH", "%s cannot be executed: its mode is %v", name, info.Mode())}
			}
		}
		return []Finding{finding("git_missing", "PATH", "no directory in PATH has git")}
	}
	return []Finding{finding("git_unusable", "git", "%v", err)}
}

// limits examines the limit of open files of this process. modproxy has the same limit if it is started in the same way.
func (e *examination) limits(context.Context) []Finding {
	if err := app.CheckOpenFiles(e.Config); err != nil {
		return []Finding{finding("open_files", "limits.connections", "%v", err)}
	}
	return nil
}

// maxSkew is the largest difference between two clocks that is not a finding. The header Date has whole seconds, and the answer arrives some
// time after it was written.
const maxSkew = time.Minute

// clock compares the clock of this machine with the clocks of the registries. It has a finding only if all of them differ in the same direction:
// otherwise a registry's clock may be wrong.
func (e *examination) clock(context.Context) []Finding {
	var least time.Duration
	host := ""
	for _, a := range e.answers() {
		if a.date.IsZero() {
			continue
		}
		skew := a.at.Sub(a.date)
		if skew.Abs() <= maxSkew || host != "" && (skew > 0) != (least > 0) {
			return nil
		}
		if host == "" || skew.Abs() < least.Abs() {
			host, least = a.host, skew
		}
	}
	if host == "" {
		return nil
	}
	way := "ahead of"
	if least < 0 {
		way = "behind"
	}
	return []Finding{finding("clock", "clock", "%v", fmt.Sprintf("it is %v %s that of %s", least.Abs().Round(time.Second), way, host))}
}
