package modproxy

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
)

// maxListed bounds the number of versions of one module.
const maxListed = 100_000

// cleaner copies a versions document and leaves out what no client would see. It
// goes over the document once and holds one value of it at a time: documents come
// from strangers, and many may be read at once.
type cleaner struct {
	in      *json.Decoder
	out     bytes.Buffer
	more    []Listed        // to be listed after those of the document
	value   json.RawMessage // the one read last
	list    []Listed
	spans   []span // of the entries in out
	entries int    // in the document
	modules bool   // the document has such a field
}

// span is a part of a document.
type span struct{ from, to int }

// clean is the document to serve for the given one, which lists more as well.
func clean(document []byte, more []Listed) (*Versions, error) {
	// All of it has to be JSON, and the rest can rely on that.
	if err := json.Unmarshal(document, &struct{}{}); err != nil {
		return nil, shapeError("%w", err)
	}
	c := cleaner{in: json.NewDecoder(bytes.NewReader(document)), more: more}
	c.out.Grow(len(document))
	if t, err := c.in.Token(); err != nil || t != json.Delim('{') {
		return nil, shapeError("it is no object")
	}
	if err := c.fields("modules", c.onlyModule); err != nil {
		return nil, err
	}
	return c.versions()
}

func shapeError(format string, args ...any) error {
	return fmt.Errorf("%w: versions document: "+format, append([]any{ErrInvalid}, args...)...)
}

// fields copies an object whose brace was read. special copies the value of the
// field of that name, which has to be there once at most.
func (c *cleaner) fields(name string, special func() error) error {
	found := false
	c.out.WriteByte('{')
	for n := 0; c.in.More(); n++ {
		field, err := c.in.Token()
		if err != nil {
			return shapeError("%w", err)
		}
		if n > 0 {
			c.out.WriteByte(',')
		}
		key, err := json.Marshal(field)
		if err != nil {
			return shapeError("%w", err)
		}
		c.out.Write(key)
		c.out.WriteByte(':')
		switch {
		case field != name:
			err = c.copy()
		case found:
			err = shapeError("it has %s twice", name)
		default:
			found, err = true, special()
		}
		if err != nil {
			return err
		}
	}
	c.out.WriteByte('}')
	return c.close()
}

// close reads the end of what is being read.
func (c *cleaner) close() error {
	if _, err := c.in.Token(); err != nil {
		return shapeError("%w", err)
	}
	return nil
}

// copy copies the next value.
func (c *cleaner) copy() error {
	if err := c.in.Decode(&c.value); err != nil {
		return shapeError("%w", err)
	}
	if err := json.Compact(&c.out, c.value); err != nil {
		return shapeError("%w", err)
	}
	return nil
}

// array reads the opening bracket of an array; false for null.
func (c *cleaner) array(name string) (bool, error) {
	t, err := c.in.Token()
	switch {
	case err != nil:
		return false, shapeError("%w", err)
	case t == json.Delim('['):
		return true, nil
	case t == nil:
		return false, nil
	}
	return false, shapeError("%s is no list", name)
}

// onlyModule copies the first module and passes over the others.
func (c *cleaner) onlyModule() error {
	c.modules = true
	there, err := c.array("modules")
	c.out.WriteByte('[')
	if err == nil && there && c.in.More() {
		err = c.module()
	}
	for err == nil && there && c.in.More() {
		err = c.in.Decode(&c.value)
	}
	c.out.WriteByte(']')
	if err != nil || !there {
		return err
	}
	return c.close()
}

func (c *cleaner) module() error {
	switch t, err := c.in.Token(); {
	case err != nil:
		return shapeError("%w", err)
	case t == nil:
		return nil
	case t != json.Delim('{'):
		return shapeError("a module is no object")
	}
	return c.fields("versions", c.listed)
}

// listed copies the entries that a client can parse.
func (c *cleaner) listed() error {
	there, err := c.array("versions")
	if err != nil {
		return err
	}
	c.out.WriteByte('[')
	for there && c.in.More() {
		if c.entries++; c.entries > maxListed {
			return shapeError("more than the %d versions that are allowed", maxListed)
		}
		if err := c.in.Decode(&c.value); err != nil {
			return shapeError("%w", err)
		}
		if l, ok := parseListed(c.value); ok {
			c.enter(l, c.value)
		}
	}
	for _, l := range c.more {
		c.enter(l, l.Entry)
	}
	c.out.WriteByte(']')
	if !there {
		return nil
	}
	return c.close()
}

func (c *cleaner) enter(l Listed, entry json.RawMessage) {
	if len(c.list) > 0 {
		c.out.WriteByte(',')
	}
	from := c.out.Len()
	json.Compact(&c.out, entry) // it was parsed
	c.list = append(c.list, l)
	c.spans = append(c.spans, span{from, c.out.Len()})
}

func parseListed(entry json.RawMessage) (Listed, bool) {
	var fields struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(entry, &fields); err != nil {
		return Listed{}, false
	}
	version, err := ParseVersion(fields.Version)
	if err != nil {
		return Listed{}, false
	}
	return Listed{Version: version, Spelling: fields.Version}, true
}

// versions is what was copied.
func (c *cleaner) versions() (*Versions, error) {
	switch {
	case !c.modules:
		return nil, shapeError("it has no modules")
	case len(c.list) == 0 && c.entries > 0:
		return nil, shapeError("none of its %d versions is one that a client can parse", c.entries)
	case len(c.list) == 0:
		return nil, fmt.Errorf("%w: the versions document lists no version", ErrNotFound)
	}
	document := c.out.Bytes()
	for i, at := range c.spans {
		c.list[i].Entry = document[at.from:at.to:at.to]
	}
	sum := sha256.Sum256(document)
	return &Versions{
		Document:   document,
		Compressed: compress(document),
		ETag:       `"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`,
		List:       c.list,
		Dropped:    c.entries + len(c.more) - len(c.list),
	}, nil
}

// compressors are *gzip.Writer; a new one takes most of a megabyte.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func compress(document []byte) []byte {
	var out bytes.Buffer
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(&out)
	w.Write(document) // a bytes.Buffer takes everything
	w.Close()
	return bytes.Clone(out.Bytes())
}
