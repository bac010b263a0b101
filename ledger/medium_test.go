package ledger_test

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"testing"
)

// medium simulates the disk below a directory. It has each file as of its last flush, and the names as of the last flush of the
// directory.
type medium struct {
	dir string

	mu      sync.Mutex
	content map[uint64][]byte // by inode
	names   map[string]uint64
	lost    map[uint64][]byte // by inode: the content at the failed flush; the page cache takes it for written
	lose    *os.File          // keeps the file of the failed flush open, so that no other file gets its inode
	flushes int
	failAt  int               // the number of the flush that fails; 0: none
	cut     func(when string) // called before and after each flush: a moment for a power cut
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

// write copies the cached content of a file to the disk, except content that the cache takes for written.
func (m *medium) write(f *os.File, inode uint64) error {
	cached, err := os.ReadFile(f.Name())
	disk, lost := m.content[inode], m.lost[inode]
	m.content[inode] = cached
	for i := range min(len(cached), len(lost)) {
		if cached[i] != lost[i] {
			continue // written again after the failed flush
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

// after returns a directory as after a power cut.
func (m *medium) after(t *testing.T) string {
	dir := t.TempDir()
	for name, inode := range m.names {
		write(t, m.content[inode], dir, name) // empty if it was never flushed
	}
	return dir
}
