//go:build linux

package store_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/test/rig"
)

// files is a Store whose storage has files. It has one blob, which it trusts after a check at any age.
type files struct {
	*fixture
	data []byte
	d    modproxy.Digest
	name string // of the file
	dir  *disk.Directory
}

func newFiles(t *testing.T) *files {
	t.Helper()
	dir := t.TempDir()
	d, err := disk.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	f := &files{fixture: newFixture(t), dir: d}
	f.restart(t)
	f.data, f.d = random(8<<20+17, 1)
	f.name = filepath.Join(dir, "blobs", "v1", "sha256", f.d.String()[:2], f.d.String())
	f.put(t)
	blob, err := d.Blobs().Open(t.Context(), f.d)
	if err != nil {
		t.Fatal(err)
	}
	defer blob.Close()
	if blob.(store.Stamped).Stamp() == (store.Stamp{}) {
		rig.Missing(t, "files of %s have no stamps", dir)
	}
	return f
}

// put stores the data, and makes its file writable: the store makes files read-only, which stops every user but root.
func (f *files) put(t *testing.T) {
	t.Helper()
	f.keep(t, f.data, f.d)
	if err := os.Chmod(f.name, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *files) restart(t *testing.T) {
	t.Helper()
	f.change(t, func(s *store.Config) { s.Records, s.Blobs, s.Quarantine = f.dir.Records(), f.dir.Blobs(), f.dir })
	f.Settle(math.MinInt64)
}

// client receives written bytes and bytes from files.
type client struct {
	bytes.Buffer
	sent  int64                       // bytes received from files
	after func(sent, all int64) error // called each time
}

func (c *client) ReadFrom(r io.Reader) (int64, error) {
	file, ok := r.(*io.LimitedReader)
	if ok {
		_, ok = file.R.(syscall.Conn)
	}
	if !ok {
		return 0, errors.New("it is not from a file")
	}
	n, err := c.Buffer.ReadFrom(file)
	c.sent += n
	if c.after != nil {
		err = errors.Join(err, c.after(c.sent, int64(c.Len())))
	}
	return n, err
}

// send sends n bytes from an offset, and returns the number of bytes received from the file.
func (f *files) send(t *testing.T, from, n int64) int64 {
	t.Helper()
	r := f.mustOpenBlob(t, f.d, len(f.data))
	defer r.Close()
	var c client
	var written int64
	var err error
	if n < int64(len(f.data)) {
		if _, err := r.Seek(from, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		written, err = r.(modproxy.Sender).SendTo(&c, n)
	} else {
		written, err = io.Copy(&c, r)
	}
	n = min(n, int64(len(f.data))-from)
	if err != nil || written != n || !bytes.Equal(c.Bytes(), f.data[from:from+n]) {
		t.Errorf("%d from %d: %d written, %v; the right bytes: %v", n, from, written, err, bytes.Equal(c.Bytes(), f.data[from:from+n]))
	}
	return c.sent
}

const end = 5 << 20 // bytes at the end that are read and not sent

// A checked blob is sent unread afterwards, whichever way it was checked, in any part.
func TestSentOnceChecked(t *testing.T) {
	f := newFiles(t)
	size := int64(len(f.data))
	for name, check := range map[string]func(){
		"as a whole": func() { equal(t, "sent unchecked", f.send(t, 0, size), 0) },
		"a part":     func() { f.send(t, 100, 10) },
		"by Check": func() {
			if err := f.Check(t.Context(), f.d); err != nil {
				t.Error(err)
			}
		},
		"before a part": func() {
			r := f.mustOpenBlob(t, f.d, len(f.data))
			defer r.Close()
			seek(t, r, 0)
		},
		"by Verify": func() {
			if v, err := f.Verify(t.Context(), store.Check{Data: true}); err != nil || v.Damage > 0 {
				t.Error(v, err)
			}
		},
	} {
		f.restart(t)
		check()
		equal(t, name+": sent", f.send(t, 0, size), size-end)
		equal(t, name+": from the middle", f.send(t, 1<<20+1, 6<<20), 6<<20-end)
		equal(t, name+": a small part", f.send(t, 1<<20+1, end), 0)
		equal(t, name+": the beginning", f.send(t, 0, end+70_000), 70_000)
		equal(t, name+": the end", f.send(t, size-end-1, end+1), 1)
		equal(t, name+": beyond it", f.send(t, size-10, 100), 0)
		equal(t, name+": from it", f.send(t, size, 100), 0)
	}
	// The reader that checks a blob for a part also sends the part.
	f.restart(t)
	if sent := f.send(t, 1, size-1); sent != 0 {
		t.Errorf("%d bytes sent of what was not checked", sent)
	}
}

// A file that was changed shortly before its check may be changed again without a new time.
func TestYoungFilesAreNotTrusted(t *testing.T) {
	f := newFiles(t)
	f.Settle(time.Minute)
	for range 3 {
		equal(t, "sent", f.send(t, 0, int64(len(f.data))), 0)
	}
	f.Settle(time.Nanosecond)
	f.send(t, 0, int64(len(f.data)))
	if f.send(t, 0, int64(len(f.data))) == 0 {
		t.Error("not sent when it was old enough")
	}
}

// A check counts for a day.
func TestTrustEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFiles(t)
		size := int64(len(f.data))
		for range 2 {
			equal(t, "sent unchecked", f.send(t, 0, size), 0)
			for range 4 {
				equal(t, "sent", f.send(t, 0, size), size-end)
				time.Sleep(6*time.Hour - time.Second)
			}
			time.Sleep(4 * time.Second)
		}
	})
}

// write changes a byte.
func write(name string) error { return writeAt(name, 'x', 1<<20) }

func writeAt(name string, b byte, at int64) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt([]byte{b}, at)
	return err
}

func mapped(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := syscall.Mmap(int(f.Fd()), 0, 2<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	m[1<<20] = 'x'
	return syscall.Munmap(m)
}

// changes are possible changes of a file by programs, and whether they damage it.
var changes = map[string]struct {
	do      func(name string) error
	damages bool
}{
	"written":         {write, true},
	"written by mmap": {mapped, true},
	"written under another name": {func(name string) error {
		return errors.Join(os.Link(name, name+".other"), write(name+".other"), os.Remove(name+".other"))
	}, true},
	"written, and given its time": {func(name string) error {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		return errors.Join(write(name), os.Chtimes(name, info.ModTime(), info.ModTime()))
	}, true},
	"cut short": {func(name string) error { return os.Truncate(name, 2<<20) }, true},
	"cut short, longer": {func(name string) error {
		return errors.Join(os.Truncate(name, 1<<20), os.Truncate(name, 8<<20+17))
	}, true},
	"linked":        {func(name string) error { return os.Link(name, name+".other") }, false},
	"for its owner": {func(name string) error { return os.Chmod(name, 0o400) }, false},
	"touched":       {func(name string) error { return os.Chtimes(name, time.Now(), time.Now()) }, false},
}

// replaced creates another file with the same name, as restoring a backup does.
func replaced(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(name+".new", flip(data, 1<<20), 0o400), os.Chtimes(name+".new", info.ModTime(), info.ModTime()),
		os.Rename(name+".new", name))
}

// Programs change a trusted file before it is sent or between two pieces. A client that gets all bytes gets the right
// ones. A damaged file is quarantined. A file that was certainly not written to is sent on.
func TestChangesOfWhatIsTrusted(t *testing.T) {
	changes := changes
	changes["replaced"] = struct {
		do      func(name string) error
		damages bool
	}{replaced, true}
	for name, change := range changes {
		for _, when := range []int64{-1, 1, 2<<20 + 1} { // before it is opened, after the first piece, before the end
			if !rig.Long() && when != 1 && name != "written" && name != "written, and given its time" && name != "cut short" && name != "replaced" {
				continue // each run copies 8 MiB several times
			}
			t.Run(name, func(t *testing.T) {
				f := newFiles(t)
				size := int64(len(f.data))
				f.send(t, 0, size)
				equal(t, "sent at first", f.send(t, 0, size), size-end)
				do := func() error { return change.do(f.name) }
				if when < 0 {
					if err := do(); err != nil {
						t.Fatal(err)
					}
				}
				c := client{}
				c.after = func(sent, _ int64) error {
					if when > 0 && sent >= when {
						when = 0
						return do()
					}
					return nil
				}
				r, err := f.Open(t.Context(), f.d, size)
				if err == nil {
					defer r.Close()
					_, err = io.Copy(&c, r)
				}
				// Replacing an open file does not change the open one.
				damaged := change.damages && !(name == "replaced" && when == 0)
				// A file with another time may have had other content for a while.
				doubtful := name == "touched" && when == 0
				if (err != nil) != (damaged || doubtful) || err != nil && errors.Is(err, store.ErrDamaged) != damaged {
					t.Errorf("%v; want damage: %v; that it ends: %v", err, damaged, doubtful)
				}
				if err == nil && !bytes.Equal(c.Bytes(), f.data) || int64(c.Len()) == size && err != nil {
					t.Errorf("%d bytes, the right ones: %v, %v", c.Len(), bytes.Equal(c.Bytes(), f.data), err)
				}
				equal(t, "damage told", f.count(store.BlobDamaged) > 0, damaged)
				_, err = f.Blobs.Stat(t.Context(), f.d)
				equal(t, "it is there", err == nil, !damaged)
			})
		}
	}
}

// rotten changes the bytes of every blob, and has no stamp.
type rotten struct {
	blobs
	data []byte // nil: the content of the blob
}

type rottenBlob struct {
	store.Stamped
	of *rotten
}

func (b *rotten) Open(ctx context.Context, d modproxy.Digest) (store.Blob, error) {
	blob, err := b.blobs.Open(ctx, d)
	if err != nil {
		return nil, err
	}
	return rottenBlob{blob.(store.Stamped), b}, nil
}

func (b rottenBlob) Read(p []byte) (int, error) {
	at, _ := b.Seek(0, io.SeekCurrent)
	n, err := b.Stamped.Read(p)
	if b.of.data != nil {
		copy(p[:n], b.of.data[at:])
	}
	return n, err
}

// Bytes that change without a program are found by the next check: after a day, or by Verify. The blob is then no
// longer trusted, even if it stays.
func TestRotIsFoundByTheNextCheck(t *testing.T) {
	for name, check := range map[string]func(t *testing.T, f *files){
		"a day": func(*testing.T, *files) { time.Sleep(25 * time.Hour) },
		"verify": func(t *testing.T, f *files) {
			if v, err := f.Verify(t.Context(), store.Check{Data: true}); err != nil || v.Damage != 1 {
				t.Errorf("verify: %+v, %v", v, err)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFiles(t)
			b := &rotten{blobs: f.Blobs}
			f.change(t, func(s *store.Config) { s.Records, s.Blobs, s.Quarantine = f.dir.Records(), b, f.dir })
			f.Settle(math.MinInt64)
			read := func() ([]byte, error) {
				r, err := f.Open(t.Context(), f.d, int64(len(f.data)))
				if err != nil {
					return nil, err
				}
				defer r.Close()
				return io.ReadAll(r)
			}
			if _, err := read(); err != nil {
				t.Fatal(err)
			}
			b.data = flip(f.data, 1<<20)
			if got, err := read(); err != nil || !bytes.Equal(got, b.data) {
				t.Errorf("%s: what is trusted is read: %v", name, err)
			}
			check(t, f)
			if got, err := read(); !errors.Is(err, store.ErrDamaged) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		})
	}
}
