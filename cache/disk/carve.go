package disk

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
)

// Every record is sealed and says what it is about, so that it can be told from
// whatever surrounds it: carving finds the records in an index of which no page
// can be trusted, those among them that were replaced since.

const (
	sumLength = 64          // of the checksum that a sealed record begins with
	maxCarved = 64 << 20    // the longest document, in bytes, unpacked or not
	window    = 1 << 20     // what is looked through at once
	sector    = 4 << 10     // what is passed over when it cannot be read
	begins    = "\n" + `{"` // the header, after the checksum
	gzipMagic = "\x1f\x8b"
)

// carved is where a sealed record is in a file.
type carved struct{ offset, length int64 }

func (c carved) read(f io.ReaderAt) ([]byte, error) {
	b := make([]byte, c.length)
	_, err := f.ReadAt(b, c.offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b, err
}

// carve finds the sealed records in f, which has size bytes. What cannot be read is
// passed over, and is the error.
func carve(f io.ReaderAt, size int64, found func(at carved, sealed []byte)) error {
	b := make([]byte, window)
	var lost error
	for start := int64(0); start < size; {
		n, err := f.ReadAt(b, start)
		part, begin := b[:n], start
		switch {
		case err == nil:
			start += window - sumLength - int64(len(begins))
		case errors.Is(err, io.EOF):
			start = size
		default:
			lost = cmp.Or(lost, err)
			start += int64(n)
			start += sector - start%sector
		}
		for at := 0; ; at++ {
			i := bytes.Index(part[at:], []byte(begins))
			if i < 0 {
				break
			}
			at += i
			if at < sumLength || !isHex(part[at-sumLength:at]) {
				continue
			}
			offset := begin + int64(at) - sumLength
			sealed, err := carveOne(io.NewSectionReader(f, offset, size-offset))
			lost = cmp.Or(lost, err)
			if sealed != nil {
				found(carved{offset, int64(len(sealed))}, sealed)
			}
		}
	}
	return lost
}

func isHex(b []byte) bool {
	for _, c := range b {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}

// carveOne is the sealed record that r begins with, or nil. Its length is nowhere:
// the header ends with its line, and a document is a JSON value, in gzip form or as it is,
// or nothing.
func carveOne(r *io.SectionReader) ([]byte, error) {
	buffered := bufio.NewReaderSize(io.LimitReader(r, maxSidecar), 4<<10)
	var sealed []byte
	for range 2 { // the checksum and the header
		line, err := buffered.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		sealed = append(sealed, line...)
	}
	var header json.RawMessage
	if _, err := unseal(sealed, &header); err == nil {
		return sealed, nil
	}
	document, err := carveDocument(io.NewSectionReader(r, int64(len(sealed)), maxCarved))
	if document == nil {
		return nil, err
	}
	sealed = append(sealed, document...)
	if _, err := unseal(sealed, &header); err != nil {
		return nil, nil
	}
	return sealed, nil
}

// carveDocument is the document that r begins with, a JSON value in gzip form or as
// it is; nil when it begins with none. The error is that r cannot be read.
func carveDocument(r *io.SectionReader) ([]byte, error) {
	text := &remembering{r: r}
	buffered := bufio.NewReader(text)
	if head, _ := buffered.Peek(len(gzipMagic)); string(head) != gzipMagic {
		var document json.RawMessage
		if err := json.NewDecoder(buffered).Decode(&document); err != nil {
			return nil, text.err // it is not JSON: there was no record, or not all of it
		}
		return document, nil
	}
	z, err := gzip.NewReader(buffered) // which reads no byte beyond the end
	if err != nil {
		return nil, text.err
	}
	z.Multistream(false)
	if n, err := io.Copy(io.Discard, io.LimitReader(z, maxCarved+1)); err != nil || n > maxCarved {
		return nil, text.err
	}
	document := make([]byte, text.n-int64(buffered.Buffered()))
	_, err = r.ReadAt(document, 0)
	return document, err
}

// remembering is a reader that counts and has its own error, unless that is the end.
type remembering struct {
	r   io.Reader
	n   int64 // bytes that were read
	err error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
