package modproxy

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"
)

// maxListed is the maximum number of versions of one module.
const maxListed = 100_000

// parseVersions returns the document to serve for a registry's document. The result has the entries for which keep returns
// true, or all if keep is nil, and the entries of more. document is that of a module, or of a provider as ParseProviderVersions
// writes it. parseVersions copies it without the fields that clients ignore. It decodes one entry at a time: documents are
// untrusted, and many may be read at once.
//
// compressed is the gzip form of document, or nil. It saves compressing an unchanged document again, which takes longer than
// the rest.
func parseVersions(document, compressed []byte, kind AddressKind, more []Listed, keep func(Listed) bool) (*Versions, error) {
	if err := json.Unmarshal(document, &struct{}{}); err != nil { // checks the syntax of the whole document
		return nil, shapeError("%w", err)
	}
	object, begin, finish := bytes.TrimSpace(document), []byte(nil), []byte(nil)
	switch kind {
	case Module:
		beforeModules, modules, afterModules, err := around(object, "modules")
		if err != nil {
			return nil, err
		}
		if modules == nil {
			return nil, shapeError("it has no modules")
		}
		object = bytes.TrimSpace(modules[:end(modules)]) // the first module
		begin, finish = append(bytes.Clone(beforeModules), '['), append([]byte{']'}, afterModules...)
	case Provider:
	}
	before, versions, after, err := around(object, "versions")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	size := len(document)
	for _, l := range more {
		size += len(l.Entry) + 1
	}
	out.Grow(size) // entries stay subslices of the buffer: it must not grow
	var list []Listed
	enter := func(l Listed, entry []byte) {
		if len(list) > 0 {
			out.WriteByte(',')
		}
		from := out.Len()
		json.Compact(&out, entry)
		l.Entry = out.Bytes()[from:out.Len():out.Len()]
		list = append(list, l)
	}
	out.Write(begin)
	out.Write(before)
	out.WriteByte('[')
	entries := 0
	for entry := range parts(versions) {
		if entries++; entries > maxListed {
			return nil, shapeError("more than the %d versions that are allowed", maxListed)
		}
		if l, ok := parseListed(entry); ok && (keep == nil || keep(l)) {
			enter(l, entry)
		}
	}
	for _, l := range more {
		enter(l, l.Entry)
	}
	out.WriteByte(']')
	out.Write(after)
	out.Write(finish)
	switch {
	case len(list) == 0 && entries > 0:
		return nil, shapeError("clients can parse none of its %d versions", entries)
	case len(list) == 0 || versions == nil:
		return nil, fmt.Errorf("%w: the versions document lists no version", ErrNotFound)
	}
	if compressed == nil || !bytes.Equal(out.Bytes(), document) {
		compressed = compress(out.Bytes())
	}
	sum := sha256.Sum256(out.Bytes())
	return &Versions{
		Document:   out.Bytes(),
		Compressed: compressed,
		ETag:       `"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`,
		List:       list,
		kind:       kind,
		Dropped:    entries + len(more) - len(list),
	}, nil
}

func shapeError(format string, args ...any) error {
	return fmt.Errorf("%w: versions document: "+format, append([]any{ErrInvalid}, args...)...)
}

func parseListed(entry []byte) (Listed, bool) {
	var fields struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(entry, &fields); err != nil {
		return Listed{}, false
	}
	version, err := ParseVersion(fields.Version)
	return Listed{Version: version, Spelling: fields.Version}, err == nil && !version.hasVariant()
}

// around splits object, which is valid JSON, around the list in the field called name. If the field does not exist, list is
// nil. null or an empty text is read as an empty object, and null in the field as an empty list.
func around(object []byte, name string) (before, list, after []byte, err error) {
	if len(object) == 0 || object[0] == 'n' {
		return nil, nil, nil, nil
	}
	if object[0] != '{' {
		return nil, nil, nil, shapeError("want an object with %s", name)
	}
	isName, found := true, false
	for part := range parts(object[1 : len(object)-1]) {
		switch {
		case isName:
			var key string
			found = json.Unmarshal(part, &key) == nil && strings.EqualFold(key, name)
			if found && key != name { // clients ignore case
				return nil, nil, nil, shapeError("field %q: want the spelling %q", key, name)
			}
		case found && list != nil:
			return nil, nil, nil, shapeError("it has %s twice", name)
		case found && part[0] == '[':
			list = part[1 : len(part)-1]
		case found && part[0] == 'n':
			list = part[:0]
		case found:
			return nil, nil, nil, shapeError("%s is not a list", name)
		}
		if found && !isName {
			at := cap(object) - cap(part)
			before, after = object[:at], object[at+len(part):]
		}
		isName = !isName
	}
	return before, list, after, nil
}

// parts yields the values of a list, or the names and values of an object: the text between commas and colons.
func parts(inside []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(inside) > 0 {
			n := end(inside)
			if part := bytes.TrimSpace(inside[:n]); len(part) > 0 && !yield(part) {
				return
			}
			inside = inside[min(n+1, len(inside)):]
		}
	}
}

// end returns the end of the value at the start of text, which is valid JSON, with the space behind it.
func end(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// compressors pools *gzip.Writer: a new one takes most of a megabyte.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func compress(document []byte) []byte {
	var out bytes.Buffer
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(&out)
	w.Write(document) // a bytes.Buffer returns no errors
	w.Close()
	return bytes.Clone(out.Bytes())
}
