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

// versionsParser copies a versions document without what clients ignore. It reads the document once and holds one value
// of it at a time: strangers write documents, and many may be read at once.
type versionsParser struct {
	in      *json.Decoder
	out     bytes.Buffer
	more    []Listed        // to be listed after the entries of the document
	value   json.RawMessage // the last one that was read
	list    []Listed
	spans   [][2]int // where the entries of list are in out
	entries int      // of the document
	modules bool     // the document has such a field
}

// parseVersions returns the document to serve for one of a registry, with more entries listed.
func parseVersions(document []byte, more []Listed) (*Versions, error) {
	// This checks all of the syntax. What is read afterwards can have a wrong shape only.
	if err := json.Unmarshal(document, &struct{}{}); err != nil {
		return nil, shapeError("%w", err)
	}
	p := versionsParser{in: json.NewDecoder(bytes.NewReader(document)), more: more}
	p.out.Grow(len(document))
	if p.token() != json.Delim('{') {
		return nil, shapeError("it is no object")
	}
	if err := p.object("modules", p.copyModules); err != nil {
		return nil, err
	}
	return p.versions()
}

func shapeError(format string, args ...any) error {
	return fmt.Errorf("%w: versions document: "+format, append([]any{ErrInvalid}, args...)...)
}

// token returns the next token. A number that is too large is an error, and as such no token that is looked for.
func (p *versionsParser) token() json.Token {
	t, err := p.in.Token()
	if err != nil {
		return err
	}
	return t
}

// object copies the rest of an object whose brace was read. special copies the value of the field of that name.
func (p *versionsParser) object(name string, special func() error) error {
	found := false
	p.out.WriteByte('{')
	for first := true; p.in.More(); first = false {
		if !first {
			p.out.WriteByte(',')
		}
		field := p.token()
		key, _ := json.Marshal(field) // a string
		p.out.Write(key)
		p.out.WriteByte(':')
		if field != name {
			p.in.Decode(&p.value)
			json.Compact(&p.out, p.value)
			continue
		}
		if found {
			return shapeError("it has %s twice", name)
		}
		found = true
		if err := special(); err != nil {
			return err
		}
	}
	p.out.WriteByte('}')
	p.token()
	return nil
}

// array calls element for each element of an array. null is an empty one.
func (p *versionsParser) array(name string, element func() error) error {
	switch p.token() {
	case nil:
		return nil
	case json.Delim('['):
	default:
		return shapeError("%s is no list", name)
	}
	for p.in.More() {
		if err := element(); err != nil {
			return err
		}
	}
	p.token()
	return nil
}

// copyModules copies the first module and passes over the others.
func (p *versionsParser) copyModules() error {
	p.modules = true
	p.out.WriteByte('[')
	defer p.out.WriteByte(']')
	first := true
	return p.array("modules", func() error {
		if !first {
			return p.in.Decode(&p.value)
		}
		first = false
		switch p.token() {
		case nil:
			return nil
		case json.Delim('{'):
			return p.object("versions", p.copyEntries)
		}
		return shapeError("a module is no object")
	})
}

// copyEntries copies the entries that clients can parse.
func (p *versionsParser) copyEntries() error {
	p.out.WriteByte('[')
	defer p.out.WriteByte(']')
	err := p.array("versions", func() error {
		if p.entries++; p.entries > maxListed {
			return shapeError("more than the %d versions that are allowed", maxListed)
		}
		p.in.Decode(&p.value)
		if l, ok := parseListed(p.value); ok {
			p.enter(l, p.value)
		}
		return nil
	})
	for _, l := range p.more {
		p.enter(l, l.Entry)
	}
	return err
}

func (p *versionsParser) enter(l Listed, entry json.RawMessage) {
	if len(p.list) > 0 {
		p.out.WriteByte(',')
	}
	from := p.out.Len()
	json.Compact(&p.out, entry)
	p.list = append(p.list, l)
	p.spans = append(p.spans, [2]int{from, p.out.Len()})
}

func parseListed(entry json.RawMessage) (Listed, bool) {
	var fields struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(entry, &fields); err != nil {
		return Listed{}, false
	}
	version, err := ParseVersion(fields.Version)
	return Listed{Version: version, Spelling: fields.Version}, err == nil
}

// versions returns what was copied.
func (p *versionsParser) versions() (*Versions, error) {
	switch {
	case !p.modules:
		return nil, shapeError("it has no modules")
	case len(p.list) == 0 && p.entries > 0:
		return nil, shapeError("none of its %d versions is one that a client can parse", p.entries)
	case len(p.list) == 0:
		return nil, fmt.Errorf("%w: the versions document lists no version", ErrNotFound)
	}
	document := p.out.Bytes()
	for i, at := range p.spans {
		p.list[i].Entry = document[at[0]:at[1]:at[1]]
	}
	sum := sha256.Sum256(document)
	return &Versions{
		Document:   document,
		Compressed: compress(document),
		ETag:       `"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`,
		List:       p.list,
		Dropped:    p.entries + len(p.more) - len(p.list),
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
