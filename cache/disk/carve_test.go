package disk

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/modproxy/modproxy/cache"
)

// worn is a file of which a sector cannot be read.
type worn struct {
	*bytes.Reader
	bad int64 // where it begins
}

func (f worn) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) <= f.bad || at >= f.bad+sector {
		return f.Reader.ReadAt(b, at)
	}
	n := max(f.bad-at, 0)
	if n, err := f.Reader.ReadAt(b[:n], at); err != nil {
		return n, err
	}
	return int(n), syscall.EIO
}

// Only the records are lost that a bad sector has.
func TestCarvePassesOverBadSectors(t *testing.T) {
	const records = 600 // more than a window
	var file []byte
	for i := range records {
		value, err := sealPackage(vpc, "1.0."+string(rune('a'+i%26)), cache.PackageRecord{Sum: "h1:a", Size: int64(i), Fetched: time.Unix(0, 0)})
		if err != nil {
			t.Fatal(err)
		}
		file = append(append(file, make([]byte, sector/2-len(value))...), value...)
	}
	for _, bad := range []int64{0, 3 * sector, window - sector, window, int64(len(file)) - sector} {
		found := map[int64]bool{}
		err := carve(worn{bytes.NewReader(file), bad}, int64(len(file)), func(at carved, _ []byte) { found[at.offset] = true })
		if len(found) != records-2 || !errors.Is(err, syscall.EIO) {
			t.Errorf("bad at %d: %d of %d, %v", bad, len(found), records, err)
		}
	}
	found := 0
	if err := carve(io.ReaderAt(bytes.NewReader(file)), int64(len(file)), func(carved, []byte) { found++ }); found < records || err != nil {
		t.Errorf("%d found, %v", found, err)
	}
}
