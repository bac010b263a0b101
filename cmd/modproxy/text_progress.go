package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

// progress shows how far something has come: on a terminal in a line that changes, elsewhere in one now and then.
type progress struct {
	w        io.Writer
	terminal bool
	shown    time.Time
	open     bool // a line that changes is on the screen
}

// progressPause is between lines where there is no terminal.
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

// clear makes room for another line.
func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.open = false
	}
}

// transfer shows how many bytes have come. It is a writer of these.
type transfer struct {
	mu           sync.Mutex // a request's body may still be read when its answer is there
	ended        bool
	progress     *progress
	verb         string // what was done with them
	done, total  int64  // total is zero if it is not known
	began, shown time.Time
}

// transferPause is between two looks of a line on a terminal.
const transferPause = 100 * time.Millisecond

func newTransfer(w io.Writer, verb string) *transfer {
	return &transfer{progress: newProgress(w), verb: verb, began: time.Now()}
}

// begin tells that the first of so many bytes come now.
func (t *transfer) begin(total int64) { t.began, t.total = time.Now(), total }

// Write counts bytes. It does not fail.
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

// end makes room for another line.
func (t *transfer) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.progress.clear()
}

// String returns how many bytes have come.
func (t *transfer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return transferText(t.verb, t.done, t.total, 0)
}

// transferText is how many bytes of total have come in a time, in one line.
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
