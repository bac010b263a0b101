package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/hint"
)

// restoringName is the file that marks a directory whose restore has not ended. Only [BeginRestore] accepts such a directory.
const restoringName = "restoring"

// restored are the names that a restore may create. After an interrupted restore, the next one removes them.
var restored = []string{"ledger", "auth", "blobs", "quarantine", "tmp", "scratch", "index.db", "layout.json"}

// NotEmpty is the error for a restore into a directory that has data.
type NotEmpty struct {
	Dir   string
	Names []string // in the directory
}

func (e *NotEmpty) Error() string {
	const most = 5
	names := strings.Join(e.Names[:min(most, len(e.Names))], ", ")
	if more := len(e.Names) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s is not empty: it has %s", e.Dir, names)
}

// A Restore is a claim of a directory that is restored. The directory cannot be used until [Restore.Finish]. If the process is killed
// before, it cannot be used until another restore.
type Restore struct {
	*Claim
	created []string // directories that did not exist, the innermost first
}

// BeginRestore claims a data directory that is missing, empty, or left by an interrupted restore, for a restore. The error is [*NotEmpty]
// if the directory has anything else.
func BeginRestore(dir string) (_ *Restore, err error) {
	r := &Restore{}
	for at, up := filepath.Clean(dir), ""; at != up; at, up = filepath.Dir(at), at {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		r.created = append(r.created, at)
	}
	if err := create(dir); err != nil {
		return nil, err
	}
	if r.Claim, err = claim(dir); errors.Is(err, ErrClaimed) {
		return nil, claimedBy(err, ownerOf(dir))
	} else if err != nil {
		return nil, errors.Join(err, r.removeCreated())
	}
	if err = r.empty(); err == nil {
		err = durable.Disk{}.WriteFile(filepath.Join(dir, restoringName), func(f *os.File) error {
			_, err := f.WriteString("modproxy restore has not ended\n")
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(err, r.removeCreated(), r.Close())
	}
	r.describe(fmt.Sprintf("process %d, which restores a backup\n", os.Getpid()))
	return r, nil
}

// empty removes what an interrupted restore has left. It returns an error if the directory has anything else.
func (r *Restore) empty() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	own := []string{restoringName}
	if err := interrupted(r.dir); err != nil {
		own = append(own, restored...)
	}
	var others []string
	for _, e := range entries {
		isOwn := slices.ContainsFunc(own, func(name string) bool {
			return e.Name() == name || strings.HasPrefix(e.Name(), name+".") && strings.HasSuffix(e.Name(), ".tmp")
		})
		if !isOwn && e.Name() != lockName && e.Name() != "lost+found" { // the last one is in every new file system
			others = append(others, e.Name())
		}
	}
	if len(others) > 0 {
		return &NotEmpty{r.dir, others}
	}
	return errors.Join(r.clear(), durable.RemoveTemps(r.dir, restoringName+"."))
}

// clear removes everything that a restore creates, except the mark.
func (r *Restore) clear() error {
	if interrupted(r.dir) == nil {
		return nil
	}
	var errs []error
	for _, name := range restored {
		errs = append(errs, os.RemoveAll(filepath.Join(r.dir, name)), durable.RemoveTemps(r.dir, name+"."))
	}
	return errors.Join(append(errs, durable.Disk{}.FlushDir(r.dir))...)
}

// Finish makes the directory usable, and ends the claim. The restored files must be durable. If root restores the directory of another
// user, that user owns the files.
func (r *Restore) Finish() error {
	err := durable.InheritOwners(r.dir)
	if err == nil {
		err = os.Remove(filepath.Join(r.dir, restoringName))
	}
	if err == nil {
		err = durable.Disk{}.FlushDir(r.dir)
	}
	return errors.Join(err, r.Close())
}

// Abandon removes everything that was restored, and the directory if it did not exist before. It ends the claim.
func (r *Restore) Abandon() error {
	err := r.clear()
	if err == nil {
		err = os.Remove(filepath.Join(r.dir, restoringName))
	}
	return errors.Join(err, r.removeCreated(), r.Close())
}

// removeCreated removes the directories that did not exist, as far as they are empty.
func (r *Restore) removeCreated() error {
	if len(r.created) == 0 {
		return nil
	}
	err := os.Remove(filepath.Join(r.created[0], lockName))
	for _, dir := range r.created {
		_ = os.Remove(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// interrupted returns an error if a restore of the directory has not ended.
func interrupted(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, restoringName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return hint.With(fmt.Errorf("%s: a restore of this directory has not ended", dir),
		"if no restore is running, it was interrupted: repeat it (\"modproxy restore FILE\"), or remove the directory")
}
