package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// shellQuote returns s as one word of a POSIX shell, on one line and without
// characters that a terminal obeys. Whatever is printed as a part of a command goes
// through it: names may come from strangers, and directories have spaces.
func shellQuote(s string) string {
	switch {
	case s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !isPlain(r) }):
		return s
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		var b strings.Builder
		for _, c := range []byte(s) {
			if c != '%' && c != '-' && isPlain(rune(c)) {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
		return `"$(printf '` + b.String() + `')"`
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// isPlain reports whether r has no special meaning to a shell anywhere in an argument.
func isPlain(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("%+,-./:=@_", r)
}

// sizeText returns a size as people read it.
func sizeText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	x, units := float64(n)/1024, []string{"KiB", "MiB", "GiB", "TiB"}
	for ; x >= 1024 && len(units) > 1; units = units[1:] {
		x /= 1024
	}
	return fmt.Sprintf("%.1f%s", x, units[0])
}

// count returns a number with what is counted.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// progress shows how far something long has come: on a terminal in one line that
// changes, elsewhere in a line now and then.
type progress struct {
	w        io.Writer
	terminal bool
	shown    time.Time
	open     bool // a line that changes is on the screen
}

// progressPause is between lines where there is no terminal.
const progressPause = 10 * time.Second

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, shown: time.Now()}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) show(text string) {
	switch {
	case p.terminal:
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
		p.open = true
	case time.Since(p.shown) >= progressPause:
		fmt.Fprintln(p.w, text)
		p.shown = time.Now()
	}
}

// clear makes room for another line.
func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.open = false
	}
}
