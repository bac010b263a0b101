package httpx

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/slots"
)

// Values of headers of many answers. They are not changed.
var (
	// JSONType is the Content-Type of JSON.
	JSONType = []string{"application/json"}

	gzipCoding   = []string{"gzip"}
	varyEncoding = []string{"Accept-Encoding"}
	noSniff      = []string{"nosniff"}
)

// A Document is an answer in JSON, in the forms in which it is sent.
type Document struct {
	Plain, Compressed []byte // Compressed is in gzip form
	ETag              string // in quotes
}

// NewDocument returns v as a document. It does not escape for HTML.
func NewDocument(v any) (*Document, error) {
	var plain, compressed bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	z := gzip.NewWriter(&compressed)
	_, _ = z.Write(plain.Bytes()) // to memory
	_ = z.Close()
	sum := sha256.Sum256(plain.Bytes())
	return &Document{plain.Bytes(), compressed.Bytes(), `"` + hex.EncodeToString(sum[:16]) + `"`}, nil
}

// Size returns about how many bytes of memory d has.
func (d *Document) Size() int64 { return 1<<10 + int64(len(d.Plain)+len(d.Compressed)) }

// WriteDocument writes d, in gzip form if the client accepts that. If the client that sent r already has it (If-None-Match), the answer
// is 304. cacheControl is the value of the header; nil for none. [Response.Failed] reports whether a write failed.
func (w *Response) WriteDocument(r *http.Request, d Document, cacheControl []string) {
	header := w.Header()
	header["Vary"] = varyEncoding
	header["Etag"] = w.Value(d.ETag)
	if cacheControl != nil {
		header["Cache-Control"] = cacheControl
	}
	if Matches(r.Header.Get("If-None-Match"), d.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := d.Plain
	if acceptsGzip(r.Header["Accept-Encoding"]) {
		header["Content-Encoding"] = gzipCoding
		body = d.Compressed
	}
	header["Content-Type"] = JSONType
	header["Content-Length"] = w.Value(strconv.Itoa(len(body)))
	w.Write(body)
}

// WriteFile writes all of a small file. If the client that sent r already has it (If-None-Match), the answer is 304. cacheControl is
// the value of the header; nil for none. [Response.Failed] reports whether a write failed.
func (w *Response) WriteFile(r *http.Request, contentType, cacheControl []string, body []byte) {
	header, sum := w.Header(), sha256.Sum256(body)
	etag := `"` + hex.EncodeToString(sum[:]) + `"`
	header["Etag"] = []string{etag}
	if cacheControl != nil {
		header["Cache-Control"] = cacheControl
	}
	if Matches(r.Header.Get("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header["Content-Type"] = contentType
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.Write(body)
}

// WriteJSON writes v as one line.
func (w *Response) WriteJSON(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header()["Content-Type"] = JSONType
	_, err = w.Write(append(body, '\n'))
	return err
}

// acceptsGzip reports whether Accept-Encoding names gzip without forbidding it (RFC 9110, 12.5.3).
func acceptsGzip(header []string) bool {
	for coding := range strings.SplitSeq(strings.Join(header, ","), ",") {
		name, params, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q, hasQ := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q=")
			if !hasQ {
				return true
			}
			weight, err := strconv.ParseFloat(q, 64)
			return err == nil && weight > 0
		}
	}
	return false
}

// Matches reports whether an If-None-Match header has the entity tag. The comparison is weak (RFC 9110, 13.1.2).
func Matches(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == etag || candidate == "*" {
			return true
		}
	}
	return false
}

const (
	largeDocument = 64 << 10        // bytes from which a document counts
	maxDocuments  = 64 << 20        // bytes of the large documents that are sent, with their compressed forms
	maxMaking     = 2               // large documents that are made at the same time
	maxWaiting    = 16              // requests that wait for a turn to make one
	makeWait      = 3 * time.Second // how long they wait
)

var errDocuments = errors.New("many large documents are being made for other clients, or sent to them")

// Documents bounds the memory of large documents: slow clients hold those that are sent for as long as they take, and making one
// takes several times its size. It is safe for concurrent use.
type Documents struct {
	making *slots.Queue // shared by clients

	mu   sync.Mutex
	used int64
	sent map[*byte]int // how many clients are sent the document that begins there
}

// NewDocuments returns a Documents that holds none.
func NewDocuments() *Documents {
	return &Documents{making: slots.New(maxMaking, maxMaking, 0, maxWaiting), sent: map[*byte]int{}}
}

// Hold must be called before a document is sent, and release afterwards. document is its plain form, and compressed the size of its
// compressed form. Two calls with the same slice, by its first byte, are one document in memory, and count once. If more than
// 64 MiB of documents would be sent, the error is a [modproxy.RetryLater]. Documents of less than 64 KiB are not limited.
func (d *Documents) Hold(document []byte, compressed int) (release func(), err error) {
	size := int64(len(document) + compressed)
	if size < largeDocument {
		return func() {}, nil
	}
	start := &document[0]
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sent[start] == 0 {
		if d.used+size > maxDocuments {
			return nil, Later(0, errDocuments)
		}
		d.used += size
	}
	d.sent[start]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.sent[start]--; d.sent[start] == 0 {
			delete(d.sent, start)
			d.used -= size
		}
	}, nil
}

// Make returns the result of make, which makes a document from answers of size bytes. At most two documents of 64 KiB or more are made
// at a time; Make waits for a slot of the client of ctx. At most 16 callers wait, because each holds the answers of its document in
// memory. If more wait, or a slot is not free within three seconds, the error is a [modproxy.RetryLater].
func (d *Documents) Make(ctx context.Context, size int64, make func() (*Document, error)) (*Document, error) {
	if size < largeDocument {
		return make()
	}
	client := modproxy.ClientOf(ctx).Name
	waiting, cancel := context.WithTimeout(ctx, makeWait)
	defer cancel()
	if d.making.Take(waiting, client) != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, Later(0, errDocuments)
	}
	defer d.making.Give(client)
	return make()
}
