package ledger_test

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"testing"
)

// medium is what of a directory is on the disk and not in memory only: of a file
// what it was when it was last flushed, and those names that were there when the
// directory was.
type medium struct {
	dir string

	mu      sync.Mutex
	content map[uint64][]byte // by inode
	names   map[string]uint64
	lost    map[uint64][]byte // what was to be flushed when that failed: the cache has it, and takes it for written
	lose    *os.File          // it, open: no other file gets its inode
	flushes int
	failAt  int               // the flush that fails; 0 for none
	cut     func(when string) // what the power could be cut in between
}

func inode(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

var errFlush = errors.New("input/output error")

func (m *medium) sync(f *os.File) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut("before " + f.Name())
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if m.flushes++; m.flushes == m.failAt {
		if info.IsDir() {
			return errFlush
		}
		if m.lose, err = os.Open(f.Name()); err == nil {
			m.lost[inode(info)], err = os.ReadFile(f.Name())
		}
		return errors.Join(errFlush, err)
	}
	if info.IsDir() {
		if f.Name() != m.dir {
			return nil
		}
		entries, err := os.ReadDir(m.dir)
		if err != nil {
			return err
		}
		m.names = map[string]uint64{}
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				m.names[e.Name()] = inode(info)
			}
		}
	} else if err := m.write(f, inode(info)); err != nil {
		return err
	}
	m.cut("after " + f.Name())
	return nil
}

// write brings to the disk what the cache has of a file and does not take for written.
func (m *medium) write(f *os.File, inode uint64) error {
	cached, err := os.ReadFile(f.Name())
	disk, lost := m.content[inode], m.lost[inode]
	m.content[inode] = cached
	for i := range min(len(cached), len(lost)) {
		if cached[i] != lost[i] {
			continue // it was written once more
		}
		if cached[i] = 0; i < len(disk) {
			cached[i] = disk[i]
		}
	}
	return err
}

func newMedium(dir string) *medium {
	return &medium{dir: dir, content: map[uint64][]byte{}, names: map[string]uint64{}, lost: map[uint64][]byte{}, cut: func(string) {}}
}

// after is the directory as it is after a power cut.
func (m *medium) after(t *testing.T) string {
	dir := t.TempDir()
	for name, inode := range m.names {
		write(t, m.content[inode], dir, name) // empty if it was never flushed
	}
	return dir
}
