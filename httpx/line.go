package httpx

import (
	"bytes"
	"cmp"
	"net/http"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy/internal/clean"
)

// LogEncoder returns zap's encoder for JSON with a faster way for the entries of requests. Characters that a terminal obeys or does
// not show are escaped in every entry.
func LogEncoder(c zapcore.EncoderConfig) zapcore.Encoder {
	end := "}" + cmp.Or(c.LineEnding, zapcore.DefaultLineEnding)
	if c.SkipLineEnding {
		end = "}"
	}
	return lineEncoder{zapcore.NewJSONEncoder(c), end}
}

type lineEncoder struct {
	zapcore.Encoder
	end string // of an entry
}

// Clone implements [zapcore.Encoder].
func (e lineEncoder) Clone() zapcore.Encoder { return lineEncoder{e.Encoder.Clone(), e.end} }

var lines = buffer.NewPool()

// EncodeEntry implements [zapcore.Encoder].
func (e lineEncoder) EncodeEntry(entry zapcore.Entry, all []zapcore.Field) (*buffer.Buffer, error) {
	var l *line
	if len(all) == 1 {
		l, _ = all[0].Interface.(*line)
	}
	if l == nil {
		return e.encodeOther(entry, all)
	}
	begin, err := e.encodeOther(entry, nil)
	if err != nil {
		return nil, err
	}
	defer begin.Free()
	to := lines.Get()
	to.Write(begin.Bytes()[:begin.Len()-len(e.end)])
	l.addTo((*jsonFields)(to))
	to.AppendString(e.end)
	return to, nil
}

// encodeOther encodes an entry that is not of a request. It may have text of strangers.
func (e lineEncoder) encodeOther(entry zapcore.Entry, all []zapcore.Field) (*buffer.Buffer, error) {
	b, err := e.Encoder.EncodeEntry(entry, all)
	if err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte(e.end))
	if harmless := clean.JSON(text); len(harmless) != len(text) {
		b.Reset()
		b.Write(harmless)
		b.AppendString(e.end)
	}
	return b, nil
}

// line is the entry of a request.
type line struct {
	*Event
	r    *http.Request
	took time.Duration
}

// MarshalLogObject implements [zapcore.ObjectMarshaler], for other encoders.
func (l *line) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	l.addTo(zapFields{enc})
	return nil
}

// fields receives the fields of an entry. Their names need no escaping.
type fields interface {
	AddString(name, value string)
	AddStrings(name string, values []string)
	AddInt64(name string, value int64)
	AddFloat64(name string, value float64)
}

type zapFields struct{ zapcore.ObjectEncoder }

func (f zapFields) AddStrings(name string, values []string) {
	zap.Strings(name, values).AddTo(f.ObjectEncoder)
}

// jsonFields are fields behind others, as zap writes them.
type jsonFields buffer.Buffer

func (f *jsonFields) to(name string) *buffer.Buffer {
	b := (*buffer.Buffer)(f)
	b.AppendString(`,"`)
	b.AppendString(name)
	b.AppendString(`":`)
	return b
}

func (f *jsonFields) AddString(name, value string) { appendJSON(f.to(name), value) }

func (f *jsonFields) AddStrings(name string, values []string) {
	b := f.to(name)
	separator := byte('[')
	for _, value := range values {
		b.AppendByte(separator)
		appendJSON(b, value)
		separator = ','
	}
	b.AppendByte(']')
}

func (f *jsonFields) AddInt64(name string, value int64) { f.to(name).AppendInt(value) }

func (f *jsonFields) AddFloat64(name string, value float64) { f.to(name).AppendFloat(value, 64) }

// appendJSON appends s as a JSON string.
func appendJSON(b *buffer.Buffer, s string) {
	b.AppendByte('"')
	plain := 0 // where the text that needs no escaping begins
	for i := 0; i < len(s); {
		c, size := rune(s[i]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRuneInString(s[i:])
		}
		if c >= ' ' && c != '"' && c != '\\' && (c < 0x7f || c > 0x7f && unicode.IsPrint(c) && (c != utf8.RuneError || size > 1)) {
			i += size
			continue
		}
		b.AppendString(s[plain:i])
		i += size
		plain = i
		switch c {
		case '"', '\\':
			b.AppendByte('\\')
			b.AppendByte(byte(c))
		case '\n':
			b.AppendString(`\n`)
		case '\r':
			b.AppendString(`\r`)
		case '\t':
			b.AppendString(`\t`)
		default: // not a character, or one that a terminal obeys or does not show
			high, low := utf16.EncodeRune(c)
			if high == unicode.ReplacementChar {
				appendEscape(b, c)
				break
			}
			appendEscape(b, high)
			appendEscape(b, low)
		}
	}
	b.AppendString(s[plain:])
	b.AppendByte('"')
}

// appendEscape appends a character that has 16 bits as JSON escapes it.
func appendEscape(b *buffer.Buffer, c rune) {
	const digits = "0123456789abcdef"
	b.AppendString(`\u`)
	for shift := 12; shift >= 0; shift -= 4 {
		b.AppendByte(digits[c>>shift&0xf])
	}
}
