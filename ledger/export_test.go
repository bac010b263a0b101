package ledger

import (
	"bytes"
	"errors"
	"os"

	"github.com/modproxy/modproxy/internal/durable"
)

// OpenSync is Open with a replacement for (*os.File).Sync.
func OpenSync(dir string, sync func(*os.File) error) (*Log, error) {
	return open(dir, durable.Disk{Sync: sync})
}

// ReadFrames reads the frames of a log. It returns the texts, and the offset of the end of the last readable frame.
func ReadFrames(log []byte) (texts [][]byte, end int64, err error) {
	f := readFrames(bytes.NewReader(log), 0)
	for {
		text, err := f.read()
		if err != nil {
			return texts, f.end, err
		}
		if !bytes.HasSuffix(log[:f.end-1], text) {
			return nil, 0, errors.New("the text is in another place")
		}
		texts = append(texts, bytes.Clone(text))
	}
}

// AppendFrame writes a frame that ReadFrames reads.
func AppendFrame(b []byte, number int64, text []byte) []byte { return appendFrame(b, number, text) }

// Waiting returns the number of entries that wait for the flush in progress.
func Waiting(l *Log) int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.waiting)
}

// AddUnchecked adds a record without comparing other spellings, as earlier versions of modproxy did.
func AddUnchecked(l *Log, r Record) error {
	text, err := FormatRecord(r)
	if err != nil {
		return err
	}
	e, err := parseEntry(text)
	if err != nil {
		return err
	}
	return l.extend([]*entry{e})
}
