package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

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
