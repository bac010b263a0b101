package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

// progress shows progress: on a terminal in a changing line, elsewhere in a new line from time to time.
type progress struct {
	w        io.Writer
	terminal bool
	shown    time.Time
	open     bool // a changing line is on the screen
}

// progressPause is the pause between lines without a terminal.
const progressPause = 10 * time.Second

func newProgress(w io.Writer) *progress {
	return &progress{w: w, shown: time.Now(), terminal: isTerminal(w)}
}

func (p *progress) show(text string) {
	text = printable(text)
	switch {
	case p.terminal:
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
		p.open = true
	case time.Since(p.shown) >= progressPause:
		fmt.Fprintln(p.w, text)
		p.shown = time.Now()
	}
}

// clear clears the changing line before other output.
func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.open = false
	}
}

// transfer shows the number of transferred bytes. It is a writer that counts them.
type transfer struct {
	mu           sync.Mutex // the body of a request may be read after its answer
	ended        bool
	progress     *progress
	verb         string // for the message, such as "read"
	done, total  int64  // in bytes; total is zero if unknown
	began, shown time.Time
}

// transferPause is the pause between updates on a terminal.
const transferPause = 100 * time.Millisecond

func newTransfer(w io.Writer, verb string) *transfer {
	return &transfer{progress: newProgress(w), verb: verb, began: time.Now()}
}

// begin starts the clock of a transfer of total bytes.
func (t *transfer) begin(total int64) { t.began, t.total = time.Now(), total }

// Write counts bytes. It never fails.
func (t *transfer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += int64(len(b))
	if now := time.Now(); !t.ended && now.Sub(t.shown) >= transferPause {
		t.progress.show(transferText(t.verb, t.done, t.total, now.Sub(t.began)))
		t.shown = now
	}
	return len(b), nil
}

// end ends the changing line.
func (t *transfer) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.progress.clear()
}

// String describes the progress.
func (t *transfer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return transferText(t.verb, t.done, t.total, 0)
}

// transferText describes the progress of a transfer in one line.
func transferText(verb string, done, total int64, took time.Duration) string {
	s := modproxy.SizeText(done)
	if total > 0 {
		s += " of " + modproxy.SizeText(total)
	}
	s += " " + verb
	if took < time.Second || done == 0 {
		return s
	}
	rate := float64(done) / took.Seconds()
	if s += fmt.Sprintf(", %.0f MB/s", rate/1e6); total > done {
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		s += fmt.Sprintf("; about %v left", max(left.Round(time.Second), time.Second))
	}
	return s
}
