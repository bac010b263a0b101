package ledger

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
)

// A log is a header line and frames, without anything between them. A frame is a
// line with the number of the record, its length in bytes and its hash as a leaf
// of the tree, then its text, then an empty line. All of it can be read by people.

const (
	logPrefix = "modproxy ledger "
	logHeader = logPrefix + "1\n"
)

// maxFrameLine bounds the first line of a frame: two numbers and a hash.
const maxFrameLine = 128

var errFrame = errors.New("what is there is not a record, or not as it was written")

func appendFrame(b []byte, number int64, e *entry) []byte {
	b = appendFrameLine(b, number, len(e.text), e.hash)
	return append(append(b, e.text...), '\n')
}

func appendFrameLine(b []byte, number int64, length int, hash tlog.Hash) []byte {
	b = append(strconv.AppendInt(b, number, 10), ' ')
	b = append(strconv.AppendInt(b, int64(length), 10), ' ')
	return append(base64.StdEncoding.AppendEncode(b, hash[:]), '\n')
}

// frames reads a log behind its header.
type frames struct {
	r      *bufio.Reader
	next   int64 // the number of the next record
	offset int64 // where its frame begins
	first  []byte
	want   []byte // the first line as it must be
	text   []byte
	length int // of the text that was read last
}

func readFrames(r io.Reader, offset int64) *frames {
	return &frames{r: bufio.NewReaderSize(r, 256<<10), offset: offset}
}

// read reads one frame; the text is good until the next call. At the end of the
// log the error is io.EOF, where a frame is cut short io.ErrUnexpectedEOF, where
// it is none errFrame.
func (f *frames) read() (text []byte, at place, err error) {
	first, err := f.r.ReadSlice('\n')
	f.first = append(f.first[:0], first...)
	switch {
	case errors.Is(err, io.EOF) && len(first) == 0:
		return nil, place{}, io.EOF
	case errors.Is(err, io.EOF):
		return nil, place{}, io.ErrUnexpectedEOF
	case errors.Is(err, bufio.ErrBufferFull), err == nil && len(first) > maxFrameLine:
		return nil, place{}, errFrame
	case err != nil:
		return nil, place{}, err
	}
	var length int
	if words := bytes.Split(f.first, []byte(" ")); len(words) == 3 {
		length, _ = strconv.Atoi(string(words[1]))
	}
	if length <= 0 || length > maxText {
		return nil, place{}, errFrame
	}
	if cap(f.text) <= length {
		f.text = make([]byte, 0, max(4096, 2*length))
	}
	f.length = length
	text = f.text[:length+1]
	if _, err := io.ReadFull(f.r, text); errors.Is(err, io.EOF) {
		return nil, place{}, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, place{}, err
	}
	f.want = appendFrameLine(f.want[:0], f.next, length, tlog.RecordHash(text[:length]))
	if !bytes.Equal(f.first, f.want) || text[length] != '\n' {
		return nil, place{}, errFrame
	}
	at = place{f.offset + int64(len(f.first)), int32(length)}
	f.offset = at.offset + int64(length) + 1
	f.next++
	return text[:length], at, nil
}

// copy writes the frame that was read last.
func (f *frames) copy(w io.Writer) error {
	if _, err := w.Write(f.first); err != nil {
		return err
	}
	_, err := w.Write(f.text[:f.length+1])
	return err
}

// readHeader reads the first line of a log.
func readHeader(r io.Reader) error {
	header := make([]byte, len(logHeader))
	if _, err := io.ReadFull(r, header); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	switch {
	case isNewer(string(header), logPrefix):
		return errNewer
	case string(header) != logHeader:
		return fmt.Errorf("it does not begin with %q", logHeader)
	}
	return nil
}

var errNewer = fmt.Errorf("%w: a newer modproxy has written it", modproxy.ErrInvalid)

// isNewer tells whether a first line has a number behind prefix that is not 1, the
// only one that is known here.
func isNewer(line, prefix string) bool {
	rest, ok := strings.CutPrefix(line, prefix)
	number, _, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), " ")
	n, err := strconv.ParseUint(number, 10, 32)
	return ok && err == nil && n > 1
}
